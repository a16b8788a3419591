"""The question into which linear regions the network divides a plane through three inputs."""

import math
from typing import Any

import torch

from gatewise.analysis.diagnosis.context import DiagnosisContext
from gatewise.analysis.diagnosis.question import Finding, Question
from gatewise.analysis.diagnosis.window import WIDEST, grid_steps, widest_partition
from gatewise.analysis.diagnosis.words import plural, rounded
from gatewise.analysis.planes import Slice
from gatewise.analysis.regions import Partition, SoftPartition, is_soft, partition

QUANTILES = torch.tensor([0, 0.5, 1.0], dtype=torch.float64)
TINY = 1e-3  # a share of the usual width below which a window is called very small


def _answer(context: DiagnosisContext) -> Finding:
    """Divide a plane into regions exactly, or for a soft network map the entropy of its gates."""
    context.check_plane()
    points = context.inputs.of_each_class(3)
    if is_soft(context.reading.graph, context.model):
        steps = grid_steps(context, points)
        return _soft_finding(partition(context.function, points, steps=steps))
    regions, extent = widest_partition(context, points)
    facts: dict[str, Any] = {
        "exact": True,
        "patterns": len(set(regions.patterns.tolist())),
        "form": regions.form,
        "neighbours": len(regions.neighbours()),
        "areas": regions.areas.quantile(QUANTILES).tolist(),
        **plane_facts(regions.slice, extent),
        **region_facts(regions),
    }
    return Finding(_line(regions, extent), facts, regions)


def _line(regions: Partition, extent: float) -> str:
    """Return the number of regions, where they are, and how many a class boundary crosses."""
    if extent >= WIDEST:
        where = "the plane through three inputs"
    elif extent < TINY * WIDEST:
        where = "a very small window between three inputs"
    else:
        where = f"a window between three inputs, {extent / WIDEST:.2g} of the usual width"
    crossed = len(set(regions.decision_boundary()[1].tolist()))
    line = f"{plural(regions.count, 'linear region')} in {where}. "
    if not crossed:
        return f"{line}No class boundary crosses it."
    return f"{line}A class boundary crosses {crossed:,} of them."


def plane_facts(window: Slice, extent: float) -> dict[str, Any]:
    """Return where a window is, and its width as a share of the usual one.

    Args:
        window: The window in its plane.
        extent: Half its side, in units of the inputs' distance from their mean.
    """
    return {
        "window_share": extent / WIDEST,
        "low": list(window.low),
        "high": list(window.high),
        "marks": window.marks.tolist(),
    }


def region_facts(regions: Partition) -> dict[str, Any]:
    """Return the number of regions, their corners, and the decision boundary."""
    segments, _ = regions.decision_boundary()
    return {
        "count": regions.count,
        "starts": regions.polygons.starts.tolist(),
        "vertices": _rounded(regions.polygons.vertices, regions),
        "boundary": _rounded(segments.reshape(-1, 2).numpy(), regions),
    }


def soft_line(uncertainty: str) -> str:
    """Return the line for a soft network, with its mean gate uncertainty."""
    return (
        "Soft activations have no exact linear regions; mean gate uncertainty is "
        f"{uncertainty} (0 to 1)."
    )


def _soft_finding(result: Partition | SoftPartition) -> Finding:
    """Return the finding for a network without linear regions."""
    assert isinstance(result, SoftPartition)  # noqa: S101 - the network is soft
    entropy = result.entropy
    mean = float(entropy.mean())
    facts: dict[str, Any] = result.to_dict() | {
        "mean": mean,
        "least": float(entropy.min()),
        "most": float(entropy.max()),
        "entropy": rounded(entropy.tolist(), 5),
    }
    return Finding(soft_line(f"{mean:.2f}"), facts, result)


def _rounded(points: Any, regions: Partition) -> list[list[float]]:
    """Round points to a ten-thousandth of the window, which is all that a page can show."""
    width = regions.slice.high[0] - regions.slice.low[0]
    digits = max(0, 4 - math.floor(math.log10(width)))
    return rounded(points.tolist(), digits)


PARTITION = Question("partition", "Into which linear regions is the input space divided?", _answer)
