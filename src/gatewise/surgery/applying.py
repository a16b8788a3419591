"""Plan a swap, apply it, prove it, and keep what is needed to undo it. All of it, or nothing."""

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from gatewise.errors import ArgumentError
from gatewise.graph import Example, copied, one_at_a_time, parameter_count, split_example
from gatewise.surgery.installing import execute_plan
from gatewise.surgery.planning import (
    ENTRY_POINTS,
    Plan,
    Where,
    make_plan,
    name_entry_points,
    read_examples,
    read_requests,
    with_unit_dtype,
    without_examples,
)
from gatewise.surgery.proof import ModelCall, Receipt, SwapFailed, check_proof, make_receipt, prove
from gatewise.surgery.propagate import fixed_sizes
from gatewise.surgery.rewrite import (
    DEPLOYED,
    RECORD,
    LoadOriginal,
    LoadStep,
    RewrittenCalls,
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
from gatewise.surgery.saving import TRANSFORMERS, follow_transformers
from gatewise.surgery.tools import UnmatchedError, match_plan
from gatewise.surgery.undoing import find_record, forget_record, opposite_signs


@one_at_a_time
def plan(
    model: nn.Module,
    unit: Any,
    example: Example | list[Example] | None = None,
    *,
    where: Where = None,
    preserve: bool | None = None,
    width: str | None = None,
    match: str | None = None,
    policy: str = "gates",
    gates: bool = False,
    examples: Sequence[Example] | None = None,
    strict: bool = False,
    unit_dtype: torch.dtype | None = None,
    **options: Any,
) -> Plan:
    """Find out what putting ``unit`` into ``model`` takes, site by site. Nothing is changed.

    The names of ``unit`` besides the catalogue's: ``"crelu"``; ``"concat_act"``, which is
    ``[act(x), act(-x)]`` for any activation; ``"psc"``, phase selective layers in place of an
    activation and the next layers (with ``put_back=True`` other readers get the activation again,
    instead of a refusal); ``"static_psc"``, in which every output of the next layers reads the
    positive or the negative part of the inputs (option ``split``, ``"learned"`` or a share);
    ``"iieu_b"``, bound to the layer before it, where ``placement="before"``
    puts units into the branches of a residual addition; ``"iieu_dc"``, which does so and puts a
    :class:`~gatewise.nn.Coupler` in place of each addition; ``"beta"``, beta forms of rectifiers,
    maxout and max pooling (options ``within``, ``learn_beta``, ``per_channel``); ``"galu"``, gates
    from a second network (options ``gate``, ``twin``); ``"gated_attention"``, sigmoid gates that
    start at 1 on the output of attention layers (option ``gate``, ``"head"`` or ``"element"``);
    ``"plain_mlp"``, plain feed-forward parts in place of gated linear units (options
    ``activation``, ``hidden``).

    Args:
        model: the model, which may have been swapped before.
        unit: a unit's name, or an activation of the user: an ``nn.Module`` class, a module, a
            function that makes one, or a function of one tensor; or, for several units at once, a
            mapping from ``where`` to one of these, to ``(unit, options)`` or to a
            :class:`Request`: ``{"layer1.*": "crelu", "layer4.*": ("elu", {"alpha": 0.5})}``. The
            first match counts.
        example: a tensor, a tuple of positional arguments or a dict of keyword arguments to run the
            model on; or a list of several such examples, for a model that does not take the same
            path through its code for all inputs.
        where: which sites: a glob, ``"re:..."``, ``"class:..."``, ``"role:..."``,
            ``"depth:0-0.5"``, a compiled pattern, a class, a function of a site, or several of
            these.
        preserve: ``True``: the changed model computes the same function as before, and sites at
            which it cannot are refused. ``None``: the function stays where the unit can keep it,
            and the other sites change. ``False``: new weights are drawn, and a unit's numbers are
            its own defaults. If the function stays, a unit of an activation's own name gets its
            numbers (``slope``, ``alpha``, ``beta``).
        width: for units with two outputs per channel, ``"same"`` (the layers behind are widened)
            or ``"half"`` (the layer in front is halved, those behind stay). Default: ``"half"``
            with ``preserve=False`` or ``match``, else ``"same"``.
        match: ``"parameters"`` or ``"flops"``: scale widths so that the swapped model costs as much
            as ``model`` does, within 1 %. Layers lose their last filters; where they grow, new
            filters are copies and the weights that read them are drawn anew. A network with a width
            option is better built anew: :func:`match` finds it.
        policy: what may be widened besides the layers that read a widened tensor: ``"consumers"``
            nothing, ``"gates"`` the factors it is multiplied with, ``"streams"`` also what it is
            added to.
        gates: include sigmoid gates.
        examples: several examples; the same as a list for ``example``.
        strict: refuse a model with modules or branches of code that no example reaches.
        unit_dtype: the dtype of the units' parameters, such as ``torch.float32`` in a model of
            16-bit numbers. The units then compute in that type and return the type of their input,
            and ``model.to(torch.bfloat16)`` leaves their parameters as they are. By default they
            have the model's type.
        **options: the unit's own.

    Returns:
        The plan. A site that cannot change is in it with its reason.

    Raises:
        ArgumentError: nothing would change, an argument is not allowed, or with ``strict``, no
            example reaches a part of the model.
    """
    if match is not None and preserve is None:
        preserve = False  # with other widths the function is another one
    several = read_examples(example, examples)
    requests = read_requests(
        unit,
        where=where,
        width=width,
        preserve=preserve,
        policy=policy,
        gates=gates,
        options=options,
    )
    if match is None:
        made = make_plan(model, requests, several, strict=strict)
    else:
        for request in requests:
            if not request.swap.can_match:
                raise ArgumentError(
                    f"{request.unit}: widths cannot be matched",
                    got=f"match={match!r}",
                    fix="leave match out",
                )
        try:
            made = match_plan(
                lambda scaled: make_plan(scaled, requests, several, strict=strict), model, match
            )
        except UnmatchedError as problem:
            problem.nearest = _finished(problem.nearest, model, unit_dtype)
            raise
    return _finished(made, model, unit_dtype)


def _finished(made: Plan, model: nn.Module, unit_dtype: torch.dtype | None) -> Plan:
    """Return a plan with the type of the units' numbers and the model's entry points."""
    made = with_unit_dtype(made, model, unit_dtype)
    has_entry_points = any(hasattr(model, name) for name in ENTRY_POINTS)
    return name_entry_points(made, model) if has_entry_points else made


@one_at_a_time
def swap(
    model: nn.Module,
    unit: Any,
    example: Example | list[Example] | None = None,
    *,
    where: Where = None,
    preserve: bool | None = None,
    width: str | None = None,
    match: str | None = None,
    policy: str = "gates",
    gates: bool = False,
    examples: Sequence[Example] | None = None,
    strict: bool = False,
    unit_dtype: torch.dtype | None = None,
    inplace: bool = False,
    optimizer: Any = None,
    calls: Sequence[ModelCall] = (),
    **options: Any,
) -> nn.Module:
    """Plan a swap and apply it; :func:`receipt` tells what was done.

    A model can be swapped again. Each :func:`undo` takes back one swap.

    Args:
        model: the model.
        unit: what to put in, and where; see :func:`plan`.
        example: what to run the model on; see :func:`plan`.
        where: which sites; see :func:`plan`.
        preserve: whether the function stays the same; by default it stays where the unit can keep
            it. See :func:`plan`.
        width: ``"same"`` or ``"half"`` for units with two outputs per channel; see :func:`plan`.
        match: ``"parameters"`` or ``"flops"``; see :func:`plan`.
        policy: what may be widened; see :func:`plan`.
        gates: include sigmoid gates.
        examples: several examples.
        strict: refuse a model with parts that no example reaches.
        unit_dtype: the dtype of the units' parameters; see :func:`plan`.
        inplace: change ``model`` itself, not a copy.
        optimizer: an optimizer of the model, whose groups and state follow the change. It needs
            ``inplace``. New numbers of units get a group without weight decay.
        calls: functions of a model that are checked, too, such as ``lambda model:
            model.encode(x)``. A swap that keeps the function fails if one returns something else;
            for other swaps the receipt says by how much it differs.
        **options: the unit's own.

    Returns:
        The changed model.

    Raises:
        SwapFailed: the changed model is not what the plan promises. ``model`` is as it was before.
    """
    if optimizer is not None:
        check_optimizer(optimizer, model, inplace)
    planned = partial(
        plan,
        model,
        unit,
        example,
        where=where,
        preserve=preserve,
        width=width,
        match=match,
        policy=policy,
        gates=gates,
        examples=examples,
        strict=strict,
        unit_dtype=unit_dtype,
        **options,
    )
    apply = partial(Plan.apply, model=model, inplace=inplace, optimizer=optimizer, calls=calls)
    made = planned()
    try:
        return apply(made)
    except SwapFailed as failure:
        if failure.__cause__ is None:
            raise
        with fixed_sizes():
            again = planned()
        if again.swapped == made.swapped:
            raise
    return apply(again)


@one_at_a_time
def apply_plan(
    plan: Plan,
    model: nn.Module,
    *,
    inplace: bool,
    examples: Sequence[Example],
    optimizer: Any = None,
    calls: Sequence[ModelCall] = (),
) -> nn.Module:
    """See :meth:`gatewise.surgery.Plan.apply`."""
    plan.check_fits(model)
    if optimizer is not None:
        check_optimizer(optimizer, model, inplace)
    before = dict(model.named_parameters())
    shapes = state_shapes(model)
    original = copy_with_same_tensors(model) if inplace and examples else model
    changed = model if inplace else copied(model)
    rewritten = RewrittenCalls.of(changed)
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
        _keep_record(plan, work, receipt, rewritten, shapes, held)
        if optimizer is not None:
            units = list(work.units.values())
            carry_over(optimizer, before, changed, by_name(plan.edits), units)
    except BaseException:
        work.roll_back()
        raise
    return changed


def _keep_record(
    plan: Plan,
    work: Transaction,
    receipt: Receipt,
    calls: RewrittenCalls,
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
        calls,
        units,
        previous,
        without_examples(plan),
        WeightsAtSwap.of(model, held),
        opposite_signs(plan) if plan.narrows else {},
    )
    if TRANSFORMERS in sys.modules:  # otherwise no module can be one of its models
        follow_transformers(model)


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
