"""Merge pairs of opposite filters into one filter each, with both of its phases.

Note [Fit, then convert]. First a copy of the model, of the same shape, gets the fit of each pair in
place of the pair, and its layers behind may be corrected. That is where all error arises. Then that
copy is converted: exactly opposite filters become one, which changes no value. So what was done is
proved at any tolerance: fit and result are equal.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from gatewise.surgery.proof import Arguments
from gatewise.surgery.propagate import new_columns, of_channels
from gatewise.surgery.reasons import Refusal
from gatewise.surgery.rewrite import Placement, Transaction, place_units
from gatewise.surgery.tools.mergeable import Mergeable
from gatewise.surgery.tools.opposite_pairs import Pair, common_direction, fitted, opposite_pairs
from gatewise.surgery.tools.paired_relu import PairedReLU
from gatewise.surgery.tools.refit import can_refit, layer_outputs, refit


@dataclass
class Fit:
    """A model of the original's shape in which paired filters are exactly opposite, and what was paired in it."""

    model: nn.Module  # float64
    pairs: dict[str, list[Pair]] = field(default_factory=dict)  # of each site that has some
    corrected: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Layout:
    """A layer's filters after merging.

    Those without a partner, then one for each pair, in this order.
    """

    singles: tuple[int, ...]
    pairs: tuple[Pair, ...]

    @property
    def order(self) -> tuple[int, ...]:
        """Which old channel each channel behind the unit is.

        Singles, first phases, second phases.
        """
        return (
            *self.singles,
            *(pair.first for pair in self.pairs),
            *(pair.second for pair in self.pairs),
        )


def fit_pairs(
    model: nn.Module, sites: Sequence[Mergeable], tolerance: float, example: Arguments | None
) -> Fit:
    """Pair the filters at ``sites``, one after the other, and correct the layers behind on ``example`` if given."""
    fit = Fit(copy.deepcopy(model).double())
    wanted: dict[str, Tensor] = {}
    if example is not None:
        paths = {
            path
            for site in sites
            for path in site.readers or ()
            if can_refit(model.get_submodule(path))
        }
        wanted = layer_outputs(model, sorted(paths), example)
    for each in sites:
        weight = fit.model.get_parameter(f"{each.layer}.weight")
        if not (pairs := opposite_pairs(weight, tolerance)):
            continue
        fit.pairs[each.site.name] = pairs
        weight.data = fitted(weight.data, pairs)
        for path in each.readers or ():
            if path in wanted:
                refit(fit.model, path, wanted[path], example or ((), {}))
                fit.corrected.append(path)
    fit.corrected = sorted(set(fit.corrected))
    return fit


def convert(work: Transaction, fit: Fit, sites: Sequence[Mergeable]) -> None:
    """Make the model of ``work`` compute what ``fit.model`` does, with one filter for each pair."""
    changed = {name: fit.model.get_parameter(name).data for name in _touched(fit, sites)}
    placements, sizes = [], {}
    for each in sites:
        if each.site.name in fit.pairs:
            unit, layout = _merge_one(each, fit.pairs[each.site.name], changed)
            like = work.model.get_parameter(f"{each.layer}.weight")
            placements.append(Placement(each.site.name, each.site.path, each.call, unit.to(like.device, like.dtype)))
            sizes[each.layer] = len(layout.singles) + len(layout.pairs)
    for name, value in changed.items():
        path, _, own = name.rpartition(".")
        old = work.model.get_parameter(name)
        work.replace(path, own, nn.Parameter(value.to(old), old.requires_grad), "parameter")
    for path, size in sizes.items():
        attribute = (
            "out_features"
            if isinstance(work.model.get_submodule(path), nn.Linear)
            else "out_channels"
        )
        work.replace(path, attribute, size, "attribute")
    place_units(work, placements)


def _touched(fit: Fit, sites: Sequence[Mergeable]) -> list[str]:
    """Every parameter that merging or correcting changes."""
    merged = [each for each in sites if each.site.name in fit.pairs]
    paths = [
        *(each.layer for each in merged),
        *fit.corrected,
        *(path for each in merged for path in each.readers or ()),
    ]
    names = [f"{path}.{own}" for path in dict.fromkeys(paths) for own in ("weight", "bias")]
    return [name for name in names if _has(fit.model, name)]


def _has(model: nn.Module, name: str) -> bool:
    path, _, own = name.rpartition(".")
    return model.get_submodule(path)._parameters.get(own) is not None


def _merge_one(
    each: Mergeable, pairs: Sequence[Pair], changed: dict[str, Tensor]
) -> tuple[PairedReLU, Layout]:
    """Merge the rows of one layer, in ``changed``, and let the layers behind take over order and scales."""
    weight, bias = changed[f"{each.layer}.weight"], changed.get(f"{each.layer}.bias")
    layout = layout_of(len(weight), pairs)
    fits = [common_direction(weight, pair) for pair in pairs]
    directions = torch.stack([direction.view_as(weight[0]) for direction, _ in fits])
    phases = torch.stack([scales for _, scales in fits])  # (pairs, 2)
    kept = torch.tensor(layout.singles, dtype=torch.long)
    old_bias = weight.new_zeros(len(weight)) if bias is None else bias
    first, second = (
        torch.tensor([pair.first for pair in pairs]),
        torch.tensor([pair.second for pair in pairs]),
    )
    offsets = old_bias[first] / phases[:, 0], old_bias[second] / phases[:, 1]
    changed[f"{each.layer}.weight"] = torch.cat((weight[kept], directions))
    if bias is not None:
        changed[f"{each.layer}.bias"] = torch.cat((bias[kept], bias.new_zeros(len(pairs))))
    scale = weight.new_ones(len(weight))
    scale[first], scale[second] = phases[:, 0], phases[:, 1]
    if _taken_over(each, layout, scale, changed):
        return PairedReLU(*offsets, dim=_dim(each)), layout
    order = torch.tensor(layout.order).argsort()
    return PairedReLU(*offsets, dim=_dim(each), scale=scale, order=order), layout


def _taken_over(each: Mergeable, layout: Layout, scale: Tensor, changed: dict[str, Tensor]) -> bool:
    """Put order and scales into the columns of all layers behind, or into none."""
    if each.readers is None:
        return False
    made: dict[str, Tensor] = {}
    for path, labels in each.readers.items():
        weight = changed[f"{path}.weight"]
        try:
            columns = new_columns(labels, layout.order)
        except Refusal:
            return False
        factors = (
            of_channels(labels, scale.cpu()).to(weight).view(1, -1, *(1,) * (weight.dim() - 2))
        )
        made[f"{path}.weight"] = (weight * factors).index_select(1, columns.to(weight.device))
    changed.update(made)
    return True


def layout_of(count: int, pairs: Sequence[Pair]) -> Layout:
    """Where the filters of a layer of ``count`` go."""
    taken = {number for pair in pairs for number in (pair.first, pair.second)}
    return Layout(tuple(number for number in range(count) if number not in taken), tuple(pairs))


def _dim(each: Mergeable) -> int:
    """The channel dimension, from the back where a linear layer made it.

    Sequences may have more in front.
    """
    dim, rank = each.site.dim, len(each.site.shape)
    return -1 if dim is None or (dim == rank - 1 and rank != 2) else dim


def saved_parameters(fit: Fit, sites: Sequence[Mergeable]) -> dict[str, float]:
    """By how much each merged layer's parameters shrink: a factor for each name."""
    factors: dict[str, float] = {}
    for each in sites:
        if each.site.name in fit.pairs:
            count = len(fit.model.get_parameter(f"{each.layer}.weight"))
            for own in ("weight", "bias"):
                factors[f"{each.layer}.{own}"] = 1 - len(fit.pairs[each.site.name]) / count
    return factors


def count_filters(fit: Fit, sites: Sequence[Mergeable]) -> tuple[int, int]:
    """Filters of all the layers looked at, before and after."""
    before = sum(len(fit.model.get_parameter(f"{each.layer}.weight")) for each in sites)
    return before, before - sum(len(pairs) for pairs in fit.pairs.values())


def phase_biases(pairs: Mapping[str, Sequence[Pair]]) -> int:
    """Numbers that the units add."""
    return 2 * sum(len(each) for each in pairs.values())
