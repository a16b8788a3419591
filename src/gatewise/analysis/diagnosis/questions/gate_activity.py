"""Questions about gates over the data.

Which channels are dead, always off, always on or alike, which gates two inputs share, and whether
filters still fire when an image moves.
"""

from typing import Any

import torch
from torch import Tensor

from gatewise.analysis.diagnosis.context import DiagnosisContext
from gatewise.analysis.diagnosis.question import Finding, Question
from gatewise.analysis.diagnosis.questions.counts import GateCounts, gate_counts
from gatewise.analysis.diagnosis.words import layer_name, layer_names, percentage, rounded
from gatewise.analysis.gating import (
    LayerInvariance,
    SiteGates,
    gate_overlap,
    gates,
    invariance,
)
from gatewise.errors import Limitation, NotApplicableError
from gatewise.graph import split_example
from gatewise.results import plain_values

INVARIANCE_NUMBERS = 100 * 3 * 32 * 32  # in the images that are moved: 100 images of CIFAR
COMPARED = 40  # inputs that are compared one by one
OVERLAP_INPUTS = 400  # of which the classes are compared
QUANTILES = torch.tensor([0, 0.1, 0.5, 0.9, 1.0], dtype=torch.float64)
BINS = torch.linspace(0, 1, 21, dtype=torch.float64)


def _answer_gates(context: DiagnosisContext) -> Finding:
    """Count the channels of every unit that pass nothing, never switch, or switch with another."""
    context.check_gates()
    result = gates(context.model, context.inputs.pairs, progress=context.progress)
    facts = {
        "sites": [_site_facts(site) for site in result.sites],
        "left_out": list(result.left_out),
        "inputs": context.inputs.count,
    }
    on_rate = float(torch.cat([site.on_rate for site in result.sites]).mean())
    return Finding(_gates_line(gate_counts(facts["sites"]), on_rate), facts, result)


def _gates_line(counts: GateCounts, on_rate: float) -> str:
    """Return the counts over all sites, and the mean firing rate, in words."""
    line = f"{_count_is(counts.dead, f' of {counts.channels:,} channels')} dead and "
    line += f"{_count_is(counts.always_on).lower()} always on. "
    if counts.always_off:
        line += f"{_count_is(counts.always_off)} always off and not dead: something passes. "
    first = counts.first_only
    if first:
        line += f"{first:,} {'changes' if first == 1 else 'change'} only at the first token. "
    if counts.alike:
        line += f"{_count_is(counts.alike)} on for exactly the same inputs as another. "
    else:
        line += "No two are on for exactly the same inputs. "
    if counts.soft:
        line += f"{_count_is(counts.saturated, ' of the soft gates')} saturated. "
    return f"{line}On average a channel fires {percentage(on_rate)} of the time."


def _count_is(count: int, words: str = "") -> str:
    """Return a count and the verb after it: ``None is``, ``1 is``, ``3 are``."""
    number = f"{count:,}" if count else "None"
    return f"{number}{words} {'is' if count < 2 else 'are'}"


def _site_facts(site: SiteGates) -> dict[str, Any]:
    """Return what a page shows of a site: counts, and the distribution of the on-rates."""
    facts: dict[str, Any] = {
        "site": site.name,
        "unit": site.unit,
        "soft": site.soft,
        "on": site.on,
        "channels": len(site.on_rate),
        "seen": site.seen,
        "on_rate": float(site.on_rate.mean()),
        "quantiles": site.on_rate.quantile(QUANTILES).tolist(),
        "entropy": float(site.entropy.mean()),
        "dead": list(site.dead),
        "always_off": list(site.always_off),
        "always_on": list(site.always_on),
        "constant": len(site.constant),
        "first_only": list(site.first_only),
        "duplicates": plain_values(site.duplicates),
        "histogram": torch.histogram(site.on_rate, BINS).hist.tolist(),
        "parameters": {name: _summary(value) for name, value in site.parameters.items()},
    }
    if site.saturated is not None and site.region_entropy is not None:
        facts["saturated"] = int(site.saturated.sum())
        facts["region_entropy"] = float(site.region_entropy.mean())
    return facts


def _summary(value: Tensor) -> dict[str, Any]:
    """Return the range of a trained parameter."""
    flat = value.detach().double().flatten()
    return {
        "count": len(flat),
        "least": float(flat.min()),
        "mean": float(flat.mean()),
        "most": float(flat.max()),
    }


def _answer_overlap(context: DiagnosisContext) -> Finding:
    """Compare the gates of some inputs, and the mean gates of the classes if they are known."""
    context.check_gates()
    result = gate_overlap(
        context.model,
        context.inputs.first_pairs(OVERLAP_INPUTS),
        inputs=COMPARED,
        memory=context.memory,
        progress=context.progress,
    )
    different = ~torch.eye(len(result.inputs), dtype=torch.bool)
    if not different.any():
        raise NotApplicableError(Limitation.TOO_FEW_INPUTS, "two are needed")
    mean = float(result.inputs[different].mean())
    line = (
        f"Two inputs open the same {percentage(mean)} of gates. If all gates were independent and "
        f"equally often on, it would be {percentage(result.chance)}."
    )
    if len(result.classes) > 1 and result.gap == result.gap:  # not NaN
        gap = percentage(abs(result.gap))
        if gap == "0 %":
            line += " Inputs of one class share as many."
        else:
            more = "more" if result.gap > 0 else "less"
            line += f" Inputs of one class share {gap} {more} than others."
    facts: dict[str, Any] = result.to_dict() | {"mean": mean, "gap": result.gap}
    facts["inputs"] = rounded(facts["inputs"], 5)
    return Finding(line, facts, result)


def _answer_invariance(context: DiagnosisContext) -> Finding:
    """Compare where filters fire on images and on their flips, rotations and shifts."""
    if not context.has_images:
        raise NotApplicableError(Limitation.NO_IMAGES)
    context.check_gates()
    if not any(site.response.rank == 4 and site.dim == 1 for site in context.gates):
        raise NotApplicableError(Limitation.NO_MAPS)
    result = invariance(context.model, _some_images(context), progress=context.progress)
    rows = [_layer_facts(layer) for layer in result.layers]
    known = [row for row in rows if row["mean"] is not None]
    if not known:
        raise NotApplicableError(Limitation.TOO_FEW_INPUTS, "no filter fired often enough")
    facts = {
        "layers": rows,
        "transforms": list(result.transforms),
        "rate": result.rate,
        "left_out": list(result.left_out),
    }
    return Finding(_invariance_line(context, known), facts, result)


def _invariance_line(context: DiagnosisContext, rows: list[dict[str, Any]]) -> str:
    """Return the scores of the first and the last layer, with the names of those layers.

    A site is named after its activation, e.g. ``relu@1``; the layer before it is easier to find.
    """
    before = {site.name: context.layers_before(site) for site in context.gates}
    parts = []
    for row in (rows[0], rows[-1])[: len(rows)]:
        layers = before.get(row["layer"])
        after = layer_names(layers) if layers else layer_name(row["layer"])
        parts.append(f"{row['mean']:.3g} times after {after}")
    return (
        "Filters that fire on an image also fire on the moved image more often than chance: "
        f"{' and '.join(parts)}."
    )


def _some_images(context: DiagnosisContext) -> list[Tensor]:
    """Return the first images in batches, so many that the analysis stays fast."""
    size = context.tensors(1).numel()
    count = max(1, INVARIANCE_NUMBERS // size)
    return [split_example(batch)[0][0] for batch in context.inputs.first_batches(count)]


def _layer_facts(layer: LayerInvariance) -> dict[str, Any]:
    """Return what a page shows of a layer: mean scores, ``None`` where no filter fired."""
    return {
        "layer": layer.name,
        "unit": layer.unit,
        "filters": len(layer.score),
        "silent": layer.silent,
        "mean": plain_values(layer.mean, finite=True),
        "transforms": plain_values(layer.transform_means, finite=True),
    }


GATES = Question("gates", "Which channels are dead, always on or alike?", _answer_gates, first=True)
OVERLAP = Question("overlap", "Which gates do two inputs share?", _answer_overlap)
INVARIANCE = Question(
    "invariance", "Do filters still fire when the image moves?", _answer_invariance
)
