"""Carry out a plan in a transaction: edits of parameters, layers, units."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.layers import PSConv1d, PSConv2d, PSLinear
from gatewise.surgery.planning import Entry, PlanData, find_swap, keep_dtype
from gatewise.surgery.rewrite import (
    Placement,
    Transaction,
    apply_edits,
    negative_weight,
    no_fast_paths,
    place_units,
)

PHASE_SELECTIVE: dict[type[nn.Module], Any] = {
    nn.Conv1d: PSConv1d,
    nn.Conv2d: PSConv2d,
    nn.Linear: PSLinear,
}
NO_MODULE = ("functional", "addition")  # kinds of sites without a module that is replaced


def execute_plan(plan: PlanData, work: Transaction) -> None:
    """Make every edit, and install every layer and unit of ``plan``."""
    model = work.model
    like = next((tensor for tensor in model.parameters() if tensor.is_floating_point()), None)
    groups = plan.by_swap()
    prepared = [swap.prepare(model, entries, like) for swap, entries in groups]
    apply_edits(work, plan.edits, plan.settings)
    for path in {**plan.layers, **plan.replaced}:
        home, _, name = path.rpartition(".")
        layer = model.get_submodule(path)
        if path in plan.replaced:
            options = dict(plan.replaced[path])
            new = find_swap(options.pop("swap")).replace_layer(layer, options)
        else:
            new = _phase_selective(layer, plan.layers[path])
        work.replace(home, name, new, "module")
    _install_units(plan, work, like)
    for (swap, entries), needed in zip(groups, prepared, strict=True):
        swap.install(work, entries, like, needed)
    no_fast_paths(work, (entry.path for entry in plan.swapped))
    if plan.unit_dtype:
        for unit in work.units.values():
            keep_dtype(unit, plan.unit_dtype)


def _phase_selective(layer: nn.Module, slopes: tuple[float, ...]) -> nn.Module:
    """The layer with a second weight for negative inputs, and its own parameters as they are."""
    weight = layer._parameters["weight"]
    if weight is None:
        raise ArgumentError("plan: a layer has no weight of its own", got=type(layer).__name__)
    form = PHASE_SELECTIVE[type(layer)]
    new = form.like(layer, 0.0, device="meta", dtype=weight.dtype)
    second = nn.Parameter(negative_weight(weight, slopes), weight.requires_grad)
    new._parameters["weight"] = weight
    new._parameters["bias"] = layer._parameters["bias"]
    new._parameters["weight_neg"] = second
    return new.train(layer.training)


def _install_units(plan: PlanData, work: Transaction, like: Tensor | None) -> None:
    """One unit for each entry; entries that share a call's place share the unit."""
    placements = placements_of(work.model, plan.swapped, like)
    for number, edge in enumerate(plan.put_back):
        placements.append(Placement(f"put back {number}", "", edge.call, edge.unit(like)))
    place_units(work, placements)
    for number in range(len(plan.put_back)):
        del work.units[f"put back {number}"]


def placements_of(
    model: nn.Module, entries: Sequence[Entry], like: Tensor | None
) -> list[Placement]:
    """Where the units of ``entries`` go. Units that are bound in place have no placement."""
    units: dict[Any, nn.Module] = {}
    placements = []
    for entry in entries:
        if entry.bindings and not entry.moved:
            continue
        slot = entry.path if entry.call is None else entry.call.slot
        if slot not in units:
            old = None if entry.kind in NO_MODULE else model.get_submodule(entry.path)
            units[slot] = find_swap(entry.unit).build(entry, old, like)
        placements.append(Placement(entry.site, entry.path, entry.call, units[slot]))
    return placements
