"""Merge pairs of opposite filters: one filter remains, and the unit uses both of its signs.

Note [Fit, then convert]. First, in a copy of the model of the same shape, each pair is replaced by
its fit, and the layers after it may be corrected. All error arises here. Then the copy is
converted: exactly opposite filters become one, which changes no value. So the conversion can be
proved at any tolerance: the fit and the result must be equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from gatewise.graph import copied
from gatewise.surgery.planning import channel_dim
from gatewise.surgery.proof import Arguments
from gatewise.surgery.propagate import new_columns, of_channels
from gatewise.surgery.reasons import Refusal
from gatewise.surgery.rewrite import Placement, Transaction, place_units
from gatewise.surgery.tools.filter_pairs import Pair, common_direction, fitted, opposite_pairs
from gatewise.surgery.tools.mergeable import Mergeable
from gatewise.surgery.tools.paired_relu import PairedReLU
from gatewise.surgery.tools.refit import can_refit, layer_outputs, refit


@dataclass
class Fit:
    """A model of the original's shape in which paired filters are exactly opposite.

    Attributes:
        model: The model, in float64.
        pairs: The pairs of each site that has some.
        corrected: The layers whose weights were fitted again.
    """

    model: nn.Module
    pairs: dict[str, list[Pair]] = field(default_factory=dict)
    corrected: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Layout:
    """The filters of a layer after merging: those without a partner, then one for each pair."""

    singles: tuple[int, ...]
    pairs: tuple[Pair, ...]

    @property
    def order(self) -> tuple[int, ...]:
        """The old channel of each channel after the unit: singles, then firsts, then seconds."""
        firsts = (pair.first for pair in self.pairs)
        seconds = (pair.second for pair in self.pairs)
        return (*self.singles, *firsts, *seconds)


def fit_pairs(
    model: nn.Module, sites: Sequence[Mergeable], tolerance: float, example: Arguments | None
) -> Fit:
    """Pair the filters at ``sites``, one site after the other. See Note [Fit, then convert].

    Args:
        model: The original model.
        sites: The sites whose filters are paired.
        tolerance: The largest mismatch of a pair.
        example: If given, the layers after each site are fitted again on it.
    """
    fit = Fit(copied(model).double())
    wanted: dict[str, Tensor] = {}
    if example is not None:
        readers = {path for mergeable in sites for path in mergeable.readers or ()}
        paths = [path for path in sorted(readers) if can_refit(model.get_submodule(path))]
        wanted = layer_outputs(model, paths, example)
    for mergeable in sites:
        weight = fit.model.get_parameter(f"{mergeable.layer}.weight")
        pairs = opposite_pairs(weight, tolerance)
        if not pairs:
            continue
        fit.pairs[mergeable.site.name] = pairs
        weight.data = fitted(weight.data, pairs)
        for path in mergeable.readers or ():
            if example is not None and path in wanted:
                refit(fit.model, path, wanted[path], example)
                fit.corrected.append(path)
    fit.corrected = sorted(set(fit.corrected))
    return fit


def convert(work: Transaction, fit: Fit, sites: Sequence[Mergeable]) -> None:
    """Make the model of ``work`` compute the same as ``fit.model``, with one filter for each pair.

    See Note [Fit, then convert].
    """
    merged = [mergeable for mergeable in sites if mergeable.site.name in fit.pairs]
    changed = _changed_parameters(fit, merged)
    placements = []
    for mergeable in merged:
        pairs = fit.pairs[mergeable.site.name]
        unit = _merge_one(mergeable, pairs, changed)
        like = work.model.get_parameter(f"{mergeable.layer}.weight")
        unit = unit.to(like.device, like.dtype)
        placements.append(Placement(mergeable.site.name, mergeable.site.path, mergeable.call, unit))
        linear = isinstance(work.model.get_submodule(mergeable.layer), nn.Linear)
        attribute = "out_features" if linear else "out_channels"
        work.replace(mergeable.layer, attribute, len(like) - len(pairs), "attribute")
    for name, value in changed.items():
        path, _, parameter = name.rpartition(".")
        old = work.model.get_parameter(name)
        work.replace(path, parameter, nn.Parameter(value.to(old), old.requires_grad), "parameter")
    place_units(work, placements)


def _changed_parameters(fit: Fit, merged: Sequence[Mergeable]) -> dict[str, Tensor]:
    """Return the parameters, by name, that merging or correcting changes."""
    paths = [mergeable.layer for mergeable in merged] + fit.corrected
    for mergeable in merged:
        paths += mergeable.readers or ()
    changed = {}
    for path in dict.fromkeys(paths):
        for name in ("weight", "bias"):
            parameter = fit.model.get_submodule(path)._parameters.get(name)
            if parameter is not None:
                changed[f"{path}.{name}"] = parameter.data
    return changed


def _merge_one(
    mergeable: Mergeable, pairs: Sequence[Pair], changed: dict[str, Tensor]
) -> PairedReLU:
    """Merge the filters of one layer, and return the unit to put after it.

    Args:
        mergeable: The site and its layer.
        pairs: The filters to merge.
        changed: The parameters by name, which are replaced by new ones. If possible, the layers
            after the site absorb the new order of channels and the scales.
    """
    weight = changed[f"{mergeable.layer}.weight"]
    bias = changed.get(f"{mergeable.layer}.bias")
    layout = layout_of(len(weight), pairs)
    fits = [common_direction(weight, pair) for pair in pairs]
    directions = torch.stack([direction.view_as(weight[0]) for direction, _ in fits])
    positive, negative = torch.stack([scales for _, scales in fits]).unbind(1)
    kept = torch.tensor(layout.singles, dtype=torch.long)
    old_bias = weight.new_zeros(len(weight)) if bias is None else bias
    first = torch.tensor([pair.first for pair in pairs])
    second = torch.tensor([pair.second for pair in pairs])
    biases = (old_bias[first] / positive, old_bias[second] / negative)
    changed[f"{mergeable.layer}.weight"] = torch.cat((weight[kept], directions))
    if bias is not None:
        changed[f"{mergeable.layer}.bias"] = torch.cat((bias[kept], bias.new_zeros(len(pairs))))
    # ReLU is positively homogeneous, so the scales can move behind it.
    scale = weight.new_ones(len(weight))
    scale[first] = positive
    scale[second] = negative
    dim = channel_dim(mergeable.site)
    if _absorbed(mergeable, layout, scale, changed):
        return PairedReLU(*biases, dim=dim)
    order = torch.tensor(layout.order).argsort()
    return PairedReLU(*biases, dim=dim, scale=scale, order=order)


def _absorbed(
    mergeable: Mergeable, layout: Layout, scale: Tensor, changed: dict[str, Tensor]
) -> bool:
    """Put order and scales into the columns of all layers after the site, or into none."""
    if mergeable.readers is None:
        return False
    # All or none: a layer that cannot absorb the order would read permuted channels.
    weights: dict[str, Tensor] = {}
    for path, labels in mergeable.readers.items():
        weight = changed[f"{path}.weight"]
        try:
            columns = new_columns(labels, layout.order)
        except Refusal:
            return False
        factors = of_channels(labels, scale.cpu()).to(weight)
        scaled = weight * factors.view(1, -1, *(1,) * (weight.dim() - 2))
        weights[f"{path}.weight"] = scaled.index_select(1, columns.to(weight.device))
    changed.update(weights)
    return True


def layout_of(count: int, pairs: Sequence[Pair]) -> Layout:
    """Return the layout after merging ``pairs`` of a layer with ``count`` filters."""
    taken = {number for pair in pairs for number in (pair.first, pair.second)}
    return Layout(tuple(number for number in range(count) if number not in taken), tuple(pairs))


def saved_parameters(fit: Fit, sites: Sequence[Mergeable]) -> dict[str, float]:
    """Return the factor by which each parameter of the merged layers shrinks."""
    factors: dict[str, float] = {}
    for mergeable in sites:
        pairs = fit.pairs.get(mergeable.site.name, ())
        if pairs:
            path = mergeable.layer
            factor = 1 - len(pairs) / len(fit.model.get_parameter(f"{path}.weight"))
            factors[f"{path}.weight"] = factor
            factors[f"{path}.bias"] = factor
    return factors


def count_filters(fit: Fit, sites: Sequence[Mergeable]) -> tuple[int, int]:
    """Return the number of filters in all checked layers, before and after merging."""
    weights = [fit.model.get_parameter(f"{mergeable.layer}.weight") for mergeable in sites]
    before = sum(map(len, weights))
    return before, before - sum(map(len, fit.pairs.values()))
