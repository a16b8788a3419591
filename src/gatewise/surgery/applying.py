"""Apply a plan, prove it, and keep what is needed to undo it. All of it, or nothing."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch import nn

from gatewise.errors import ArgumentError
from gatewise.graph import (
    CHANNEL_NORMS,
    CONVOLUTIONS,
    LINEAR,
    Example,
    Node,
    copied,
    one_at_a_time,
    parameter_count,
    split_example,
)
from gatewise.surgery.installing import execute_plan
from gatewise.surgery.planning import PlanData, without_examples
from gatewise.surgery.proof import ModelCall, Receipt, check_proof, make_receipt, prove
from gatewise.surgery.rewrite import (
    DEPLOYED,
    RECORD,
    LoadOriginal,
    LoadStep,
    SwapRecord,
    Transaction,
    WeightsAtSwap,
    by_name,
    carry_over,
    check_optimizer,
    copy_with_same_tensors,
    names_of_tensors,
    state_shapes,
    state_tensors,
)


@one_at_a_time
def apply_plan(
    plan: PlanData,
    model: nn.Module,
    *,
    inplace: bool,
    examples: Sequence[Example],
    optimizer: Any = None,
    calls: Sequence[ModelCall] = (),
) -> nn.Module:
    """Carry out ``plan`` on ``model`` and prove it; see :meth:`gatewise.surgery.Plan.apply`.

    Args:
        plan: the plan.
        model: the model to change.
        inplace: change ``model`` itself, not a copy.
        examples: what to prove it on; nothing is proved without one.
        optimizer: an optimizer of the model.
        calls: functions of a model that are checked, too.
    """
    plan.check_fits(model)
    if optimizer is not None:
        check_optimizer(optimizer, model, inplace)
    before = dict(model.named_parameters())
    shapes = state_shapes(model)
    original = copy_with_same_tensors(model) if inplace and examples else model
    changed = model if inplace else copied(model)
    held = [id(tensor) for tensor in state_tensors(changed).values()]
    work = Transaction(changed)
    try:
        execute_plan(plan, work)
        proof = None
        if examples:
            arguments = [split_example(example) for example in examples]
            proof = prove(plan, original, changed, work.units, arguments, calls)
            check_proof(plan, proof)
        receipt = make_receipt(plan, parameter_count(changed), proof, work.level)
        _keep_record(plan, work, receipt, shapes, held)
        if optimizer is not None:
            units = list(work.units.values())
            carry_over(optimizer, before, changed, by_name(plan.edits), units)
    except BaseException:
        work.roll_back()
        raise
    return changed


def _keep_record(
    plan: PlanData,
    work: Transaction,
    receipt: Receipt,
    shapes: Any,
    held: list[int],
) -> None:
    """Put the record for :func:`undo` and the hook for older checkpoints on the model."""
    model = work.model
    names = names_of_tensors(model)
    tensors = model.state_dict(keep_vars=True)
    edits = {}
    for name, changes in by_name(plan.edits).items():
        for alias in names.get(id(tensors.get(name)), [name]):
            edits[alias] = changes
    step = LoadStep(shapes, state_shapes(model), edits, plan.layers, _renamed_slopes(work))
    hook = LoadOriginal.of(model)
    steps = hook.steps if hook else ()
    previous = model.__dict__.get(RECORD)
    work.others.append(partial(forget_record, model, previous, steps))
    LoadOriginal.set_steps(model, (*steps, step))
    units = tuple(dict.fromkeys(entry.unit for entry in plan.swapped))
    model.__dict__[RECORD] = SwapRecord(
        receipt,
        list(work.changes),
        work.calls,
        units,
        previous,
        without_examples(plan),
        WeightsAtSwap.of(model, held),
        opposite_signs(plan),
    )


def _renamed_slopes(work: Transaction) -> dict[str, str]:
    """By the name of a PReLU's weight the name of the unit's slope that has taken its place."""
    names = {}
    for change in work.changes:
        if change.kind == "module" and isinstance(change.old, nn.PReLU):
            path = f"{change.path}.{change.name}".lstrip(".")
            new = work.model.get_submodule(path)
            if "slope" in new._parameters:
                names[f"{path}.weight"] = f"{path}.slope"
    return names


def receipt(model: nn.Module) -> Receipt:
    """The receipt of what was done to ``model`` last; it says how many swaps came before."""
    if isinstance(model, nn.Module) and DEPLOYED in model.__dict__ and RECORD not in model.__dict__:
        return model.__dict__[DEPLOYED]
    return find_record(model).receipt


def find_record(model: nn.Module) -> SwapRecord:
    """The record of the last swap; an error if ``model`` has none."""
    if isinstance(model, nn.Module) and DEPLOYED in model.__dict__ and RECORD not in model.__dict__:
        raise ArgumentError(
            "model: was deployed, which cannot be undone",
            fix="gw.surgery.deploy returned a copy: continue with the model that it received",
        )
    if not isinstance(model, nn.Module) or RECORD not in model.__dict__:
        raise ArgumentError(
            "model: no units were put into it",
            got=type(model).__name__,
            fix="pass what gw.swap(...) returned",
        )
    return model.__dict__[RECORD]


def forget_record(
    model: nn.Module, previous: SwapRecord | None, steps: tuple[LoadStep, ...]
) -> None:
    """Let ``model`` have the record and the steps of before its last swap."""
    LoadOriginal.set_steps(model, steps)
    if previous is None:
        model.__dict__.pop(RECORD, None)
    else:
        model.__dict__[RECORD] = previous


def opposite_signs(plan: PlanData) -> dict[str, int]:
    """How the filters that a plan drops follow from those that stay, if the function is to stay.

    A swap to half the width keeps the first half of the filters, and CReLU computes the outputs of
    the second half as ``ReLU(-h)``. Filters with the opposite sign compute the same, if there is
    at most a batch norm between the layer and the activation.

    Returns:
        By the name of a tensor the factor of its second half; empty if the plan was read from a
        file, has other edits, or has other operations between a layer and its activation.
    """
    if plan.graph is None or not plan.narrows:
        return {}
    signs: dict[str, int] = {}
    for reading in plan.graph.readings.values():
        for entry in plan.swapped:
            if entry.unit == "crelu" and entry.site in reading.site_nodes:
                signs |= _signs_before(reading.site_nodes[entry.site].input)
    return signs if all(edit.name in signs for edit in plan.edits) else {}


def _signs_before(node: Node) -> dict[str, int]:
    """The signs for a layer, and for a batch norm after it. ``node`` makes the unit's input."""
    signs: dict[str, int] = {}
    if node.op in CHANNEL_NORMS:
        for argument, sign in {
            "weight": 1,
            "bias": -1,
            "running_mean": -1,
            "running_var": 1,
        }.items():
            signs |= _named(node, argument, sign)
        node = node.inputs[0]
    if node.op in LINEAR or node.op in CONVOLUTIONS:
        return signs | _named(node, "weight", -1) | _named(node, "bias", -1)
    return {}


def _named(node: Node, argument: str, sign: int) -> dict[str, int]:
    tensor = node.tensor(argument) if argument in node.arguments else None
    return {} if tensor is None else {tensor.name: sign}
