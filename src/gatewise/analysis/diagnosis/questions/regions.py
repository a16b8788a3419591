"""The question of regions: how a plane through three inputs is cut."""

import math
from typing import Any

import torch

from gatewise.analysis.diagnosis.context import Subject
from gatewise.analysis.diagnosis.finding import DoesNotApply, Finding
from gatewise.analysis.diagnosis.questions.maps import check_one_output
from gatewise.analysis.diagnosis.window import WIDEST, grid_steps, widest
from gatewise.analysis.diagnosis.words import plural
from gatewise.analysis.planes import Slice
from gatewise.analysis.regions import Partition, SoftPartition, is_soft, partition


def ask_partition(subject: Subject) -> Finding:
    """Into which regions does the network divide a plane through three inputs?"""
    subject.check_one_tensor()
    check_one_output(subject)
    if subject.inputs.count < 3:
        raise DoesNotApply("too few inputs", "three are needed, for a plane")
    points = subject.inputs.of_each_class(3)
    if is_soft(subject.reading.graph, subject.model):
        return _soft_finding(partition(subject.map, points, steps=grid_steps(subject, points)))
    return _regions_finding(*widest(subject, points))


def _regions_finding(found: Partition, extent: float) -> Finding:
    facts: dict[str, Any] = {
        "exact": True,
        "patterns": len(set(found.patterns.tolist())),
        "form": found.form,
        "neighbours": len(found.neighbours()),
        "areas": [
            float(each)
            for each in found.areas.quantile(torch.tensor([0, 0.5, 1.0], dtype=torch.float64))
        ],
        **plane_facts(found.slice, extent),
        **region_facts(found),
    }
    share = facts["window_share"]
    where = (
        "the plane through three inputs"
        if share == 1
        else f"a window amid three inputs, 1/{1 / share:,.0f} of the usual"
    )
    met = len(set(found.decision_boundary()[1].tolist()))
    crossed = f"{met:,} of them {'meets' if met == 1 else 'meet'}" if met else "none meets"
    return Finding(
        f"{plural(found.count, 'region')} in {where}; {crossed} the decision boundary.",
        facts,
        found,
    )


def plane_facts(window: Slice, extent: float) -> dict[str, Any]:
    """Where the window lies, and its share of the usual width."""
    return {
        "window_share": extent / WIDEST,
        "low": list(window.low),
        "high": list(window.high),
        "marks": window.marks.tolist(),
    }


def region_facts(found: Partition) -> dict[str, Any]:
    """How many regions there are, their corners, and the decision boundary."""
    segments, _ = found.decision_boundary()
    return {
        "count": found.count,
        "starts": found.polygons.starts.tolist(),
        "vertices": _rounded(found.polygons.vertices, found),
        "boundary": _rounded(segments.reshape(-1, 2).numpy(), found),
    }


def _soft_finding(found: Partition | SoftPartition) -> Finding:
    assert isinstance(found, SoftPartition)  # noqa: S101 - asked only of soft networks
    mean = float(found.entropy.mean())
    facts: dict[str, Any] = found.to_dict() | {
        "mean": mean,
        "least": float(found.entropy.min()),
        "most": float(found.entropy.max()),
    }
    facts["entropy"] = [[round(each, 5) for each in row] for row in facts["entropy"]]
    return Finding(
        f"Gates are soft, so there are no regions: they are {mean:.2f} undecided, of 1.",
        facts,
        found,
    )


def _rounded(points: Any, found: Partition) -> list[list[float]]:
    """Points to a ten-thousandth of the window: what a page can show."""
    width = found.slice.high[0] - found.slice.low[0]
    digits = max(0, 4 - math.floor(math.log10(width)))
    return [[round(u, digits), round(v, digits)] for u, v in points.tolist()]
