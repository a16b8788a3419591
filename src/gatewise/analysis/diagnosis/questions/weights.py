"""Questions about the weights alone: opposite filters, orthogonality, the prior of regions."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.diagnosis.context import DiagnosisContext
from gatewise.analysis.diagnosis.pictures import signed_picture
from gatewise.analysis.diagnosis.question import SURE, Finding, Question
from gatewise.analysis.diagnosis.questions.counts import exact_pairs
from gatewise.analysis.diagnosis.words import (
    layer_name,
    p_value,
    plural,
    sentence_start,
    signed,
    thinned,
)
from gatewise.analysis.filters import (
    CONVOLUTIONS,
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
from gatewise.errors import ArgumentError, Limitation, NotApplicableError

OPERATIONS = 2e11  # that random filters may take in all, which is some seconds
BINS = torch.linspace(-1, 1, 41)
QUANTILES = torch.tensor([0.0, 0.1, 0.5, 0.9, 1.0], dtype=torch.float64)
PICTURES = 32  # filters that are shown
SPECTRUM = 64  # values of a spectrum that are written


def _answer_pairing(context: DiagnosisContext) -> Finding:
    """Compare the most negative correlation of each filter with those of random filters."""
    layers, too_large = _fitting_layers("pairing", context)
    # Two filters, or filters of one number, are always alike or opposite.
    layers = [layer for layer in layers if len(layer.weight) > 2 and layer.weight[0].numel() > 1]
    _check_some(layers, too_large)
    work = sum(2.0 * len(layer.weight) ** 2 * layer.weight[0].numel() for layer in layers)
    draws = int(min(30, max(3, OPERATIONS / work)))  # sets of random filters
    names = {layer.name for layer in layers}
    result = pairing(context.model, where=names.__contains__, draws=draws)
    facts: dict[str, Any] = result.to_dict() | {
        "draws": draws,
        "too_large": too_large,
        "pictures": _filter_pictures(result.layers[0]),
        "bins": [round(value, 6) for value in BINS.tolist()],
    }
    for row, layer in zip(facts["layers"], result.layers, strict=True):
        row["exact_pairs"] = exact_pairs(layer.correlation)
        row["filters"] = len(layer.correlation)
        row["histogram"] = _bin_shares(layer.correlation)
        row["chance_histogram"] = _bin_shares(layer.chance.flatten())
    line = _pairing_line(result)
    exact = sum(row["exact_pairs"] for row in facts["layers"])
    if exact:
        are = "pair of filters is" if exact == 1 else "pairs of filters are"
        line = f"{exact:,} {are} each other's negative. {line}"
        line = line.replace("No layer has", "On average, no layer has")
    return Finding(line, facts, result)


def _pairing_line(result: Pairing) -> str:
    """Describe the layer whose filters are most opposite, compared with random ones."""
    known: list[LayerPairing] = []
    opposite: list[LayerPairing] = []  # far more opposite than random filters,
    only_opposite: list[LayerPairing] = []  # and than the same filters with random signs
    p_values: dict[str, float] = {}
    for layer, p, p_signs in zip(result.layers, result.p_values, result.p_phases, strict=True):
        if math.isnan(layer.mean):  # fewer than two filters of the layer are not zero
            continue
        known.append(layer)
        p_values[layer.name] = p
        if p < SURE and layer.mean < layer.chance_mean:
            opposite.append(layer)
            if p_signs < SURE:
                only_opposite.append(layer)
    if not known:
        return "No layer has opposite filters: none has two filters that are not all zero."
    closest = min(only_opposite or known, key=lambda layer: layer.mean - layer.chance_mean)
    numbers = (
        f"{layer_name(closest.name)} has {signed(closest.mean)}; random filters give "
        f"{signed(closest.chance_mean)} ({p_value(p_values[closest.name])})"
    )
    similar = f"{signed(closest.similar_mean)} with the most similar filter"
    layers = plural(len(known), "layer")
    if only_opposite:
        have = "has" if len(only_opposite) == 1 else "have"
        return (
            f"{len(only_opposite)} of {layers} {have} opposite filters. Average correlation: "
            f"{numbers}, and {similar}."
        )
    if opposite:
        return (
            f"No layer has opposite filters. {len(opposite)} of {layers} have filters in a few "
            f"directions, as alike as opposite: {numbers}, and {similar}."
        )
    return f"No layer has more opposite filters than chance. The closest: {numbers}."


def _filter_pictures(layer: LayerPairing) -> list[dict[str, Any]]:
    """Return filters of images next to their partners, the most opposite first."""
    weight = layer.weight
    if weight.dim() != 4 or weight.shape[1] not in (1, 3) or min(weight.shape[2:]) < 2:
        return []
    rows = []
    for place in _shown(layer):
        partner = int(layer.partner[place])
        correlation = layer.correlation[place]
        row = {
            "filter": place,
            "partner": partner,
            "correlation": None if correlation.isnan() else float(correlation),
            "pixels": signed_picture(weight[place]),
            "partner_pixels": signed_picture(weight[partner]),
        }
        rows.append(row)
    return rows


def _shown(layer: LayerPairing) -> list[int]:
    """Return the most opposite filters first. Two that are each other's partner appear once."""
    places: list[int] = []
    for place in layer.correlation.nan_to_num(nan=2.0).argsort().tolist():
        partner = int(layer.partner[place])
        if partner not in places or int(layer.partner[partner]) != place:
            places.append(place)
    return places[:PICTURES]


def _answer_orthogonality(context: DiagnosisContext) -> Finding:
    """Compute the spectrum of the Gram matrix of each layer's filters."""
    layers, too_large = _fitting_layers("orthogonality", context)
    _check_some(layers, too_large)
    names = {layer.name for layer in layers}
    result = orthogonality(context.model, where=names.__contains__)
    facts: dict[str, Any] = result.to_dict() | {"too_large": too_large}
    for row in facts["layers"]:
        values = row["spectrum"]
        row["spectrum"] = [values[place] for place in thinned(len(values), SPECTRUM)]
    return Finding(_orthogonality_line(result), facts, result)


def _orthogonality_line(result: Orthogonality) -> str:
    """Describe the most similar filters, and the layer with the widest frame bounds."""
    stretches = {}
    for layer in result.layers:
        low, high = layer.frame_bounds
        stretches[layer.name] = (high / max(low, 1e-300)) ** 0.5
    most = max(stretches, key=lambda name: stretches[name])
    closest = max(result.layers, key=lambda layer: layer.coherence)
    zero = sum(layer.zero_filters for layer in result.layers)
    line = (
        f"The most similar filters are in {layer_name(closest.name)} (|cosine| "
        f"{closest.coherence:.2f}). {sentence_start(layer_name(most))} stretches some inputs "
        f"{stretches[most]:.3g} times more than others."
    )
    return f"{line} {plural(zero, 'filter')} are all zero." if zero else line


def _answer_prior(context: DiagnosisContext) -> Finding:
    """Compute the prior of the active region for each layer that a unit follows."""
    layers, _ = _fitting_layers("region_prior", context)
    before_units: set[str] = set()
    for site in context.gates:
        before_units.update(context.layers_before(site))
    names = {layer.name for layer in layers if layer.name in before_units}
    if not names:
        convolutions = any(layer.weight.dim() > 2 for layer in layers)
        if convolutions:
            raise NotApplicableError(Limitation.NO_UNIT_AFTER_CONVOLUTION)
        raise NotApplicableError(Limitation.NO_LAYER if layers else Limitation.NO_FILTERS)
    result = region_prior(context.model, where=names.__contains__)
    left_out = [layer.name for layer in layers if layer.name not in before_units]
    facts: dict[str, Any] = result.to_dict() | {"left_out": left_out}
    for row in facts["layers"]:
        active = torch.tensor(row.pop("active"), dtype=torch.float64)
        row["filters"] = len(active)
        row["quantiles"] = active.quantile(QUANTILES).tolist()
    return Finding(_prior_line(result), facts, result)


def _prior_line(result: RegionPrior) -> str:
    """Describe the layer that is furthest from He's initialisation."""
    layer = max(result.layers, key=lambda layer: abs(layer.mean - layer.he))
    line = (
        f"The units after {layer_name(layer.name)} are active with a prior of {layer.mean:.2f} on "
        f"average; after He initialisation it is {layer.he:.2f}."
    )
    if len(result.layers) == 1:
        return line
    return f"{line} This is the largest difference of {plural(len(result.layers), 'layer')}."


def _fitting_layers(analysis: str, context: DiagnosisContext) -> tuple[list[Filters], list[str]]:
    """Return the layers whose Gram matrix fits into memory, and the others with their need."""
    layers = []
    too_large = []
    where = _chosen_layers(context)
    for layer in find_filters(analysis, context.model, where.__contains__ if where else None):
        # In float64: the Gram matrix, two copies of it, and two of the filters.
        needed = 8.0 * (3 * len(layer.weight) ** 2 + 2 * layer.weight.numel())
        if needed <= context.memory:
            layers.append(layer)
        else:
            too_large.append(f"{layer.name}: {needed / 2**30:.1f} GiB")
    return layers, too_large


def _chosen_layers(context: DiagnosisContext) -> set[str]:
    """Return the convolutions, and the linear layers before a unit; nothing without the latter.

    Other linear layers, such as those of attention, have no gates.
    """
    try:
        before_units = {name for site in context.gates for name in context.layers_before(site)}
    except (NotApplicableError, ArgumentError):  # the model cannot be read, but its weights can
        return set()
    convolutions = set()
    linear = set()
    for name, module in context.model.named_modules():
        if isinstance(module, CONVOLUTIONS):
            convolutions.add(name)
        elif isinstance(module, nn.Linear) and name in before_units:
            linear.add(name)
    return convolutions | linear if linear else set()


def _check_some(layers: list[Filters], too_large: list[str]) -> None:
    """Check that some layers are left."""
    if layers:
        return
    if too_large:
        raise NotApplicableError(Limitation.TOO_LARGE, ", ".join(too_large))
    raise NotApplicableError(Limitation.NO_FILTERS)


def _bin_shares(values: Tensor) -> list[float]:
    """Return the share of the values in each bin. NaN is left out."""
    known = values[~values.isnan()].double().clamp(-1, 1)
    counts = torch.histogram(known, BINS.double()).hist
    return [round(share, 6) for share in (counts / max(1, len(known))).tolist()]


PAIRING = Question(
    "pairing", "Do layers have opposite filters?", _answer_pairing, reads_inputs=False, first=True
)
ORTHOGONALITY = Question(
    "orthogonality",
    "How far are filters from orthogonal?",
    _answer_orthogonality,
    reads_inputs=False,
)
PRIOR = Question(
    "prior",
    "How likely is each unit active before any input is seen?",
    _answer_prior,
    reads_inputs=False,
)
