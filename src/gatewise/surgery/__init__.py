"""Put any unit into any model: plan the change, make it, prove it.

Note [How]. A model is read as a graph of activation sites (``gatewise.graph``). A change of
channels at a site is followed over the graph as a map of channels; each operator's rule passes it
on, ends it with an edit of a parameter, or refuses. The result is plain data: parameters indexed
along a dimension, new values of sizes, units at paths or, for functional and reused calls, in
rewritten methods. The module tree stays the user's own: class, names, state dict.

The sub-packages, each of which imports only those before it: ``propagate`` (channel maps),
``calls`` (where calls stand in the source), ``rewrite`` (changes of a model), ``binding`` (units
that see the layer before them), ``planning`` (from a request to a plan, and the interface of a
swap), ``proof``, ``applying``, ``swaps`` (one file for each swap), ``tools``.
"""

from collections.abc import Mapping
from typing import Any

from torch import nn

from gatewise.errors import ArgumentError
from gatewise.graph import Example
from gatewise.surgery.applying import receipt as receipt
from gatewise.surgery.applying import undo as undo
from gatewise.surgery.planning import Entry as Entry
from gatewise.surgery.planning import Plan as Plan
from gatewise.surgery.planning import Request as Request
from gatewise.surgery.planning import Swap as Swap
from gatewise.surgery.planning import Where, make_plan, read_requests
from gatewise.surgery.planning import table as table
from gatewise.surgery.proof import Proof as Proof
from gatewise.surgery.proof import Receipt as Receipt
from gatewise.surgery.proof import SwapFailed as SwapFailed
from gatewise.surgery.proof import run as run
from gatewise.surgery.propagate import cost as cost
from gatewise.surgery.reasons import Reason as Reason
from gatewise.surgery.rewrite import check_optimizer
from gatewise.surgery.swaps import twin_of as twin_of
from gatewise.surgery.tools import DeployReceipt as DeployReceipt
from gatewise.surgery.tools import Match as Match
from gatewise.surgery.tools import MergeCurve as MergeCurve
from gatewise.surgery.tools import MergePoint as MergePoint
from gatewise.surgery.tools import MergeReceipt as MergeReceipt
from gatewise.surgery.tools import OrthogonalReceipt as OrthogonalReceipt
from gatewise.surgery.tools import PairedReLU as PairedReLU
from gatewise.surgery.tools import deploy as deploy
from gatewise.surgery.tools import match as match
from gatewise.surgery.tools import match_plan
from gatewise.surgery.tools import merge_curve as merge_curve
from gatewise.surgery.tools import merge_pairs as merge_pairs
from gatewise.surgery.tools import orthogonalize as orthogonalize


def plan(
    model: nn.Module,
    unit: str | Mapping[Any, Any],
    example: Example,
    *,
    where: Where = None,
    width: str | None = None,
    preserve: bool = False,
    policy: str = "gates",
    gates: bool = False,
    match: str | None = None,
    **options: Any,
) -> Plan:
    """Find out what putting ``unit`` into ``model`` takes, site by site. Nothing is changed.

    The names of ``unit`` besides the catalogue's: ``"crelu"``; ``"concat_act"``, which is
    ``[act(x), act(-x)]`` for any activation; ``"psc"``, phase selective layers in place of an
    activation and the next layers (with ``put_back=True`` other readers get the activation again,
    instead of a refusal); ``"iieu_b"``, bound to the layer before it, where ``placement="before"``
    puts units into the branches of a residual addition; ``"iieu_dc"``, which does so and puts a
    :class:`~gatewise.nn.Coupler` in place of each addition; ``"beta"``, beta forms of rectifiers,
    maxout and max pooling (options ``within``, ``learn_beta``, ``per_channel``); ``"galu"``, gates
    from a second network (options ``gate``, ``twin``).

    Args:
        model: the model, which may have been swapped before.
        unit: a unit's name; or, for several units at once, a mapping from ``where`` to a name, to
            ``(name, options)`` or to a :class:`Request`, such as
            ``{"layer1.*": "crelu", "layer4.*": ("elu", {"alpha": 0.5})}``. The first match counts.
        example: a tensor, a tuple of positional arguments or a dict of keyword arguments to run the
            model on.
        where: which sites: a glob, ``"re:..."``, ``"class:..."``, ``"role:..."``,
            ``"depth:0-0.5"``, a compiled pattern, a class, a function of a site, or several of
            these.
        width: for units with two outputs per channel, ``"half"`` (the layer in front is halved,
            those behind stay) or ``"same"`` (those behind are widened). Default: ``"same"`` if
            ``preserve``, else ``"half"``.
        preserve: the changed model computes the same function as before, and sites at which it
            cannot are refused. A unit of an activation's own name gets its numbers (``slope``,
            ``alpha``, ``beta``).
        policy: what may be widened besides the layers that read a widened tensor: ``"consumers"``
            nothing, ``"gates"`` the factors it is multiplied with, ``"streams"`` also what it is
            added to.
        gates: include sigmoid gates.
        match: ``"parameters"`` or ``"flops"``: scale widths so that the swapped model costs as much
            as ``model`` does, within 1 %. Layers lose their last filters; where they grow, new
            filters are copies and the weights that read them are drawn anew. A network with a width
            option is better built anew: :func:`match` finds it.
        **options: the unit's own.

    Returns:
        The plan. A site that cannot change is in it with its reason.

    Raises:
        ArgumentError: nothing would change, or an argument is not allowed.
    """
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
        return make_plan(model, requests, example)
    for request in requests:
        if not request.swap.can_match:
            raise ArgumentError(
                f"{request.unit}: widths cannot be matched",
                got=f"match={match!r}",
                fix="leave match out",
            )
    return match_plan(lambda scaled: make_plan(scaled, requests, example), model, match)


def swap(
    model: nn.Module,
    unit: str | Mapping[Any, Any],
    example: Example,
    *,
    inplace: bool = False,
    optimizer: Any = None,
    **choices: Any,
) -> nn.Module:
    """Plan a swap and carry it out; :func:`receipt` tells what was done.

    A model can be swapped again. Each :func:`undo` takes back one swap.

    Args:
        model: the model.
        unit: what to put in, and where; see :func:`plan`.
        example: what to run the model on.
        inplace: change ``model`` itself, not a copy.
        optimizer: an optimizer of the model, whose groups and state follow the change. It needs
            ``inplace``.
        **choices: those of :func:`plan`.

    Returns:
        The changed model.

    Raises:
        SwapFailed: the changed model is not what the plan promises. ``model`` is as it was before.
    """
    check_optimizer(optimizer, model, inplace)
    return plan(model, unit, example, **choices).apply(model, inplace=inplace, optimizer=optimizer)
