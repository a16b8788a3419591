"""Questions about the weights alone: pairing, orthogonality, the prior of regions."""

import math
from typing import Any

import torch
from torch import Tensor

from gatewise.analysis.diagnosis.context import Subject
from gatewise.analysis.diagnosis.finding import DoesNotApply, Finding
from gatewise.analysis.diagnosis.pictures import signed as signed_picture
from gatewise.analysis.diagnosis.words import called, chance, plural, signed
from gatewise.analysis.filters import (
    Filters,
    LayerPairing,
    Orthogonality,
    Pairing,
    RegionPrior,
    find_filters,
    orthogonality,
    pairing,
    region_prior,
)
from gatewise.errors import ArgumentError

SURE = 0.01  # a corrected p-value below is a finding
OPERATIONS = 2e11  # that random filters may take in all: some seconds
BINS = torch.linspace(-1, 1, 41)
PICTURES = 32


def ask_pairing(subject: Subject) -> Finding:
    """Do filters come in pairs of opposite phase?"""
    layers, too_large = _layers("pairing", subject)
    layers = [each for each in layers if len(each.weight) > 2 and each.weight[0].numel() > 1]
    if not layers:
        raise DoesNotApply("too large" if too_large else "no filters", ", ".join(too_large))
    work = sum(2.0 * len(each.weight) ** 2 * each.weight[0].numel() for each in layers)
    draws = int(min(30, max(3, OPERATIONS / work)))
    names = {each.name for each in layers}
    found = pairing(subject.model, where=names.__contains__, draws=draws)
    facts: dict[str, Any] = found.to_dict() | {
        "draws": draws,
        "too_large": too_large,
        "pictures": _filter_pictures(found.layers[0]),
    }
    for row, layer in zip(facts["layers"], found.layers, strict=True):
        row["histogram"] = _counts(layer.correlation)
        row["chance_histogram"] = _counts(layer.chance.flatten())
    facts["bins"] = [round(each, 6) for each in BINS.tolist()]
    return Finding(_pairing_line(found), facts, found)


def _pairing_line(found: Pairing) -> str:
    every = zip(found.layers, found.p_values, found.p_phases, strict=True)
    known = [
        each for each in every if not math.isnan(each[0].mean)
    ]  # of the others all filters, or all but one, are 0
    if not known:
        return "No layer pairs: none has two filters that are not all zero."
    triples = sorted(known, key=lambda each: each[0].mean - each[0].chance_mean)
    nearer = [each for each in triples if each[1] < SURE and each[0].mean < each[0].chance_mean]
    paired = [each for each in nearer if each[2] < SURE]
    layer, p, _ = (paired or triples)[0]
    facts = f"{called(layer.name)} at {signed(layer.mean)} against {signed(layer.chance_mean)} by chance, {chance(p)}"
    alike = f"{signed(layer.similar_mean)} with the most similar"
    if paired:
        return f"{len(paired)} of {plural(len(triples), 'layer')} pair more than chance: {facts}, and {alike}."
    if nearer:
        few_lines = f"No layer pairs: the filters of {len(nearer)} of {plural(len(triples), 'layer')} are nearer than "
        return f"{few_lines}chance, but as alike as opposite; {facts}, and {alike}."
    return f"No layer pairs more than chance; the nearest is {facts}."


def _filter_pictures(layer: LayerPairing) -> list[dict[str, Any]]:
    """Filters of the first layer beside their partners, the most opposite first, where they are of images."""
    weight = layer.weight
    if weight.dim() != 4 or weight.shape[1] not in (1, 3) or min(weight.shape[2:]) < 2:
        return []
    return [
        {
            "filter": place,
            "partner": int(layer.partner[place]),
            "correlation": _number(layer.correlation[place]),
            "pixels": signed_picture(weight[place]),
            "partner_pixels": signed_picture(weight[layer.partner[place]]),
        }
        for place in _shown(layer)
    ]


def _shown(layer: LayerPairing) -> list[int]:
    """The most opposite filters first, two that are each other's partner once."""
    found: list[int] = []
    for place in layer.correlation.nan_to_num(nan=2.0).argsort().tolist():
        other = int(layer.partner[place])
        if other not in found or int(layer.partner[other]) != place:
            found.append(place)
    return found[:PICTURES]


def ask_orthogonality(subject: Subject) -> Finding:
    """How far are filters from orthogonal?"""
    layers, too_large = _layers("orthogonality", subject)
    if not layers:
        raise DoesNotApply("too large" if too_large else "no filters", ", ".join(too_large))
    names = {each.name for each in layers}
    found = orthogonality(subject.model, where=names.__contains__)
    facts: dict[str, Any] = found.to_dict() | {"too_large": too_large}
    for row in facts["layers"]:
        row["spectrum"] = _thinned(row["spectrum"])
    return Finding(_orthogonality_line(found), facts, found)


def _orthogonality_line(found: Orthogonality) -> str:
    worst = max(found.layers, key=lambda each: each.coherence)
    wide = max(
        found.layers, key=lambda each: each.frame_bounds[1] / max(each.frame_bounds[0], 1e-300)
    )
    low, high = wide.frame_bounds
    zero = sum(each.zero_filters for each in found.layers)
    text = f"The most alike filters are in {called(worst.name)} (|cosine| {worst.coherence:.2f}); "
    text += f"{called(wide.name)} stretches some inputs {(high / max(low, 1e-300)) ** 0.5:.3g} times more than others."
    return text + (f" {plural(zero, 'filter')} all zero." if zero else "")


def ask_prior(subject: Subject) -> Finding:
    """How probable is each unit's active region before any input is seen?"""
    layers, _ = _layers("region_prior", subject)
    before_units = {name for site in subject.gates for name in subject.layers_before(site)}
    names = [each.name for each in layers if each.name in before_units]
    if not names:
        convolutions = any(each.weight.dim() > 2 for each in layers)
        raise DoesNotApply(
            "no unit behind" if convolutions else "no layer" if layers else "no filters"
        )
    found = region_prior(subject.model, where=set(names).__contains__)
    left_out = [each.name for each in layers if each.name not in before_units]
    facts: dict[str, Any] = found.to_dict() | {"left_out": left_out}
    for row in facts["layers"]:
        active = torch.tensor(row.pop("active"), dtype=torch.float64)
        row["filters"] = len(active)
        row["quantiles"] = torch.quantile(
            active, torch.tensor([0.0, 0.1, 0.5, 0.9, 1.0], dtype=torch.float64)
        ).tolist()
    return Finding(_prior_line(found), facts, found)


def _prior_line(found: RegionPrior) -> str:
    """The layer furthest from its start."""
    far = max(found.layers, key=lambda each: abs(each.mean - each.he))
    before = f"The units after {called(far.name)} are active with a prior of {far.mean:.2f} on average, where "
    if len(found.layers) == 1:
        return f"{before}He's start has {far.he:.2f}."
    return f"{before}He's start has {far.he:.2f}: the furthest of {plural(len(found.layers), 'layer')}."


def _layers(question: str, subject: Subject) -> tuple[list[Filters], list[str]]:
    """The layers to look at, and those whose Gram matrix would not fit, each with what it would take."""
    try:
        found = find_filters(question, subject.model, None)
    except ArgumentError as problem:
        raise DoesNotApply("no filters", str(problem)) from None
    fits, too_large = [], []
    for layer in found:
        needed = 8.0 * (3 * len(layer.weight) ** 2 + 2 * layer.weight.numel())
        if needed <= subject.memory:
            fits.append(layer)
        else:
            too_large.append(f"{layer.name}: {needed / 2**30:.1f} GiB")
    return fits, too_large


def _counts(values: Tensor) -> list[float]:
    """The share of the values in each bin."""
    known = values[~values.isnan()].double().clamp(-1, 1)
    counts = torch.histogram(known, BINS.double()).hist
    return [round(each, 6) for each in (counts / max(1, len(known))).tolist()]


def _thinned(values: list[float], most: int = 64) -> list[float]:
    """At most ``most`` of the values, at equal steps, both ends among them."""
    if len(values) <= most:
        return values
    return [values[round(place * (len(values) - 1) / (most - 1))] for place in range(most)]


def _number(value: Tensor) -> float | None:
    return None if value.isnan() else float(value)
