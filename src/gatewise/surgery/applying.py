"""Carry out a plan, prove it, and keep what is needed to undo it. All of it, or nothing."""

import copy
from collections.abc import Sequence
from functools import partial
from typing import Any

from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.graph import parameter_count, split_example
from gatewise.layers import PSConv1d, PSConv2d, PSLinear
from gatewise.surgery.planning import Entry, Plan, find_swap
from gatewise.surgery.proof import Receipt, check_proof, make_receipt, prove
from gatewise.surgery.rewrite import (
    DEPLOYED,
    RECORD,
    LoadOriginal,
    LoadStep,
    Placement,
    RewrittenCalls,
    SwapRecord,
    Transaction,
    apply_edits,
    by_name,
    carry_over,
    check_carried,
    check_optimizer,
    give_back,
    names_of_tensors,
    negative_weight,
    place_units,
    state_shapes,
)

PHASE_SELECTIVE: dict[type[nn.Module], Any] = {
    nn.Conv1d: PSConv1d,
    nn.Conv2d: PSConv2d,
    nn.Linear: PSLinear,
}
NO_MODULE = ("functional", "addition")  # kinds of sites without a module that is replaced


def apply_plan(
    plan: Plan, model: nn.Module, *, inplace: bool, example: Any, optimizer: Any = None
) -> nn.Module:
    """See :meth:`gatewise.surgery.Plan.apply`."""
    plan.check_fits(model)
    check_optimizer(optimizer, model, inplace)
    before = dict(model.named_parameters())
    shapes = state_shapes(model)
    original = copy.deepcopy(model) if inplace and example is not None else model
    changed = model if inplace else copy.deepcopy(model)
    calls = RewrittenCalls.of(changed)
    work = Transaction(changed)
    try:
        execute_plan(plan, work)
        proof = None
        if example is not None:
            proof = prove(plan, original, changed, work.units, split_example(example))
            check_proof(plan, proof)
        receipt = make_receipt(plan, parameter_count(changed), proof, work.level)
        _keep_record(plan, work, receipt, calls, shapes)
        if optimizer is not None:
            carry_over(optimizer, before, changed, by_name(plan.edits))
    except BaseException:
        work.roll_back()
        raise
    return changed


def execute_plan(plan: Plan, work: Transaction) -> None:
    """Make every edit, and install every layer and unit of ``plan``."""
    model = work.model
    like = next((tensor for tensor in model.parameters() if tensor.is_floating_point()), None)
    groups = plan.by_swap()
    prepared = [swap.prepare(model, entries, like) for swap, entries in groups]
    apply_edits(work, plan.edits, plan.settings)
    for path, slopes in plan.layers.items():
        home, _, name = path.rpartition(".")
        work.replace(home, name, _phase_selective(model.get_submodule(path), slopes), "module")
    _install_units(plan, work, like)
    for (swap, entries), needed in zip(groups, prepared, strict=True):
        swap.install(work, entries, like, needed)


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


def _install_units(plan: Plan, work: Transaction, like: Tensor | None) -> None:
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


def _keep_record(
    plan: Plan, work: Transaction, receipt: Receipt, calls: RewrittenCalls, shapes: Any
) -> None:
    """Put the record for :func:`undo` and the hook for older checkpoints on the model."""
    model = work.model
    names = names_of_tensors(model)
    tensors = model.state_dict(keep_vars=True)
    edits = {}
    for name, changes in by_name(plan.edits).items():
        for alias in names.get(id(tensors.get(name)), [name]):
            edits[alias] = changes
    step = LoadStep(shapes, state_shapes(model), edits, plan.layers)
    hook = LoadOriginal.of(model)
    steps = hook.steps if hook else ()
    previous = model.__dict__.get(RECORD)
    work.others.append(partial(_forget_record, model, previous, steps))
    LoadOriginal.set_steps(model, (*steps, step))
    units = tuple(dict.fromkeys(entry.unit for entry in plan.swapped))
    model.__dict__[RECORD] = SwapRecord(receipt, list(work.changes), calls, units, previous)


def _forget_record(
    model: nn.Module, previous: SwapRecord | None, steps: tuple[LoadStep, ...]
) -> None:
    """Let ``model`` have the record and the steps of before its last swap."""
    LoadOriginal.set_steps(model, steps)
    if previous is None:
        model.__dict__.pop(RECORD, None)
    else:
        model.__dict__[RECORD] = previous


def receipt(model: nn.Module) -> Receipt:
    """The receipt of what was done to ``model`` last; it says how many swaps came before."""
    if isinstance(model, nn.Module) and DEPLOYED in model.__dict__ and RECORD not in model.__dict__:
        return model.__dict__[DEPLOYED]
    return _record(model).receipt


def undo(model: nn.Module, *, optimizer: Any = None) -> nn.Module:
    """Take back the last swap of ``model``, in place.

    Weights that the swap replaced are again those of before the swap. After several swaps, each
    call takes back one of them.

    Args:
        model: what :func:`gatewise.swap` returned, or a copy of it.
        optimizer: an optimizer that the swap carried over. Its groups and the state of replaced
            weights are restored.
    """
    record = _record(model)
    if optimizer is not None:
        check_carried(optimizer, model)
    record.calls.restore(model)
    for change in reversed(record.changes):
        change.take_back(model)
    for name in record.units:
        find_swap(name).uninstall(model, record.level)
    hook = LoadOriginal.of(model)
    steps = hook.steps if hook else ()
    _forget_record(model, record.previous, steps[:-1] if record.units else steps)
    if optimizer is not None:
        give_back(optimizer)
    return model


def _record(model: nn.Module) -> SwapRecord:
    if isinstance(model, nn.Module) and DEPLOYED in model.__dict__ and RECORD not in model.__dict__:
        raise ArgumentError(
            "model: was deployed, which cannot be undone",
            fix="gw.deploy returned a copy: continue with the model that it received",
        )
    if not isinstance(model, nn.Module) or RECORD not in model.__dict__:
        raise ArgumentError(
            "model: no units were put into it",
            got=type(model).__name__,
            fix="pass what gw.swap(...) returned",
        )
    return model.__dict__[RECORD]
