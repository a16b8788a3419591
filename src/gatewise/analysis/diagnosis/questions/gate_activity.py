"""Questions about gates over the data.

Which are ever on, which alike, which inputs share theirs.
"""

from typing import Any

import torch
from torch import Tensor

from gatewise.analysis.diagnosis.context import Subject
from gatewise.analysis.diagnosis.finding import DoesNotApply, Finding
from gatewise.analysis.diagnosis.words import called, share
from gatewise.analysis.gating import (
    Gates,
    LayerInvariance,
    SiteGates,
    gate_overlap,
    gates,
    invariance,
)
from gatewise.graph import split_example

INVARIANCE_NUMBERS = (
    100 * 3 * 32 * 32
)  # in the images that are turned and shifted: as many as 100 of CIFAR
COMPARED = 40  # inputs that are compared one by one
OVERLAP_BATCHES = 4


def ask_gates(subject: Subject) -> Finding:
    """Which gates are ever on, always on, or alike?"""
    check_gates(subject)
    found = gates(subject.model, subject.inputs.pairs, progress=subject.count)
    facts: dict[str, Any] = {
        "sites": [_site(each) for each in found.sites],
        "left_out": list(found.left_out),
    }
    facts["inputs"] = subject.inputs.count
    return Finding(_line(found), facts, found)


def check_gates(subject: Subject) -> None:
    """Refuse a model without sites, and inputs that are random numbers or several tensors."""
    if not len(subject.graph):
        raise DoesNotApply("no gates", "; ".join(subject.graph.notes))
    if not subject.inputs.real:
        raise DoesNotApply("no real inputs")
    if isinstance(subject.inputs.batches[0], tuple):
        raise DoesNotApply("several inputs")


def _line(found: Gates) -> str:
    channels = sum(len(each.on_rate) for each in found.sites)
    dead, always = (
        sum(len(getattr(each, name)) for each in found.sites) for name in ("dead", "always_on")
    )
    alike = sum(len(group) - 1 for each in found.sites for group in each.duplicates)
    text = f"Of {channels:,} channels {dead:,} {'is' if dead == 1 else 'are'} never on, {always:,} always on, "
    text += f"{alike:,} copies of another"
    soft = [each for each in found.sites if each.saturated is not None]
    if soft:
        text += f", {sum(int(_kept(each.saturated).sum()) for each in soft):,} saturated"
    mean = sum(float(each.on_rate.sum()) for each in found.sites) / max(1, channels)
    return f"{text}; a gate is on {share(mean)} of the time."


def _site(each: SiteGates) -> dict[str, Any]:
    """What a page shows of a site: counts, and the on-rates' quantiles."""
    steps = torch.tensor([0, 0.1, 0.5, 0.9, 1.0], dtype=torch.float64)
    found: dict[str, Any] = {
        "site": each.name,
        "unit": each.unit,
        "soft": each.soft,
        "channels": len(each.on_rate),
        "seen": each.seen,
        "on_rate": float(each.on_rate.mean()),
        "quantiles": each.on_rate.quantile(steps).tolist(),
        "entropy": float(each.entropy.mean()),
        "dead": list(each.dead),
        "always_on": list(each.always_on),
        "duplicates": [list(group) for group in each.duplicates],
        "histogram": torch.histogram(
            each.on_rate, torch.linspace(0, 1, 21, dtype=torch.float64)
        ).hist.tolist(),
    }
    if each.saturated is not None and each.region_entropy is not None:
        found["saturated"] = int(each.saturated.sum())
        found["region_entropy"] = float(each.region_entropy.mean())
    found["parameters"] = {name: _summary(value) for name, value in each.parameters.items()}
    return found


def _summary(value: Tensor) -> dict[str, Any]:
    flat = value.detach().double().flatten()
    return {
        "count": len(flat),
        "least": float(flat.min()),
        "mean": float(flat.mean()),
        "most": float(flat.max()),
    }


def _kept(value: Tensor | None) -> Tensor:
    return torch.zeros(0) if value is None else value


def ask_overlap(subject: Subject) -> Finding:
    """Which gates do two inputs have in common?"""
    check_gates(subject)
    batches = subject.inputs.pairs[:OVERLAP_BATCHES]
    found = gate_overlap(
        subject.model, batches, inputs=COMPARED, memory=subject.memory, progress=subject.count
    )
    between = ~torch.eye(len(found.inputs), dtype=torch.bool)
    if not between.any():
        raise DoesNotApply("too few inputs", "two are needed")
    mean = float(found.inputs[between].mean())
    text = f"Two inputs have {share(mean)} of all gates on in common, where the square of the share that is on is "
    text += share(found.chance)
    if len(found.classes) > 1 and found.gap == found.gap:
        more = "more" if found.gap >= 0 else "less"
        text += f"; two of one class {share(abs(found.gap))} {more} than two of different ones"
    facts: dict[str, Any] = found.to_dict() | {"mean": mean, "gap": found.gap}
    facts["inputs"] = [[round(each, 5) for each in row] for row in facts["inputs"]]
    return Finding(f"{text}.", facts, found)


def ask_invariance(subject: Subject) -> Finding:
    """Do filters that fire on an image still fire when it is flipped, turned or shifted?"""
    if not subject.has_images:
        raise DoesNotApply("no images")
    check_gates(subject)
    if not any(site.response.rank == 4 and site.dim == 1 for site in subject.gates):
        raise DoesNotApply("no maps")
    found = invariance(subject.model, _some(subject, INVARIANCE_NUMBERS), progress=subject.count)
    rows = [_layer(each) for each in found.layers]
    facts = {
        "layers": rows,
        "transforms": list(found.transforms),
        "rate": found.rate,
        "left_out": list(found.left_out),
    }
    known = [row for row in rows if row["mean"] is not None]
    if not known:
        raise DoesNotApply("too few inputs", "no filter fired often enough")
    first, last = known[0], known[-1]
    text = f"A filter that fires on an image fires {first['mean']:.3g} times as often as by chance on the moved one after"
    return Finding(
        f"{text} {called(first['layer'])}, and {last['mean']:.3g} times after {called(last['layer'])}.",
        facts,
        found,
    )


def _some(subject: Subject, numbers: int) -> list[Tensor]:
    """The first images, of so many numbers in all, in batches."""
    first = subject.tensors(1)
    count = min(subject.inputs.count, max(1, numbers // first.numel()))
    return list(
        subject.tensors(count).split(max(1, len(split_example(subject.inputs.batches[0])[0][0])))
    )


def _layer(each: LayerInvariance) -> dict[str, Any]:
    means = [(row / each.global_rate).nanmean() for row in each.local_rate]
    return {
        "layer": each.name,
        "unit": each.unit,
        "filters": len(each.score),
        "silent": each.silent,
        "mean": _number(each.score.nanmean()),
        "transforms": [_number(value) for value in means],
    }


def _number(value: Tensor) -> float | None:
    return None if value.isnan() else float(value)
