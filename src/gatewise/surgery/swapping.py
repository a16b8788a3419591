"""Plan a swap and apply it: the functions that users call."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from gatewise.errors import ArgumentError
from gatewise.graph import Example, one_at_a_time
from gatewise.surgery.applying import apply_plan
from gatewise.surgery.fixed_sizes import runs_with_its_sizes
from gatewise.surgery.planning import (
    PlanData,
    Where,
    make_plan,
    name_entry_points,
    read_examples,
    read_requests,
    with_unit_dtype,
)
from gatewise.surgery.proof import ModelCall
from gatewise.surgery.propagate import fixed_sizes
from gatewise.surgery.rewrite import check_optimizer
from gatewise.surgery.saving import follow_transformers
from gatewise.surgery.tools import UnmatchedError, match_plan


class Plan(PlanData):
    """What :func:`gatewise.plan` found out.

    Print it, write it with :meth:`to_json`, carry it out with :meth:`apply`. It has the attributes
    of the data that it is made of, see :class:`gatewise.surgery.planning.PlanData`.
    """

    def apply(
        self,
        model: nn.Module,
        *,
        inplace: bool = True,
        example: Any = None,
        optimizer: Any = None,
        calls: Sequence[ModelCall] = (),
    ) -> nn.Module:
        """Change ``model``, which must have the shapes the plan was made for, and prove the change.

        Args:
            model: the model to change.
            inplace: change ``model`` itself, not a copy.
            example: what to prove it on, or a list of several; by default the examples of
                planning. Without any, nothing is proved, and the receipt says so.
            optimizer: an optimizer of the model, whose groups and state follow the change.
            calls: functions of a model that are checked, too; see :func:`gatewise.swap`.

        Returns:
            The changed model.

        Raises:
            SwapFailed: the changed model is not what the plan promises. It is as it was before.
        """
        examples = self.examples if example is None else read_examples(example, None)
        changed = apply_plan(
            self, model, inplace=inplace, examples=examples, optimizer=optimizer, calls=calls
        )
        follow_transformers(changed)
        return changed


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
        strict: refuse a model with modules or lines of code that no example reaches.
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
    if match is not None:
        for request in requests:
            if not request.swap.can_match:
                raise ArgumentError(
                    f"{request.unit}: widths cannot be matched",
                    got=f"match={match!r}",
                    fix="leave match out",
                )

    def made_for(scaled: nn.Module) -> PlanData:
        return make_plan(scaled, requests, several, strict=strict)

    def planned() -> PlanData:
        return made_for(model) if match is None else match_plan(made_for, model, match)

    def finished(made: PlanData) -> Plan:
        made = with_unit_dtype(made, model, unit_dtype)
        return Plan(**vars(name_entry_points(made, model)))

    try:
        made = planned()
        if not runs_with_its_sizes(made, model):
            with fixed_sizes():
                made = planned()
    except UnmatchedError as problem:
        problem.nearest = finished(problem.nearest)
        raise
    return finished(made)


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
    made = plan(
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
    return made.apply(model, inplace=inplace, optimizer=optimizer, calls=calls)
