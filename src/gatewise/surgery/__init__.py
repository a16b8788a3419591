"""Put any unit into any model: plan it, do it, prove it.

Note [How]. A model is read as a graph of activation sites (``gatewise.graph``). A change of
channels at a site is followed over the graph as a map of channels; each operator's rule passes it
on, ends it with an edit of a parameter, or refuses. What is done is plain data: parameters indexed
along a dimension, sizes written anew, units put at paths or, for functional and reused calls, into
rewritten methods. The module tree stays the user's own: class, names, state dict.
"""

from typing import Any

from torch import nn

from gatewise.errors import ArgumentError
from gatewise.graph import Example
from gatewise.surgery.binding.bindings import BOUND
from gatewise.surgery.binding.planner import make_bound_plan
from gatewise.surgery.planning.planner import make_plan
from gatewise.surgery.planning.plans import Entry as Entry
from gatewise.surgery.planning.plans import Plan as Plan
from gatewise.surgery.planning.scaling import match_plan
from gatewise.surgery.planning.selection import Where
from gatewise.surgery.planning.show import table as table
from gatewise.surgery.proof.proving import SwapFailed as SwapFailed
from gatewise.surgery.proof.receipts import Proof as Proof
from gatewise.surgery.proof.receipts import Receipt as Receipt
from gatewise.surgery.proof.running import run as run
from gatewise.surgery.propagate import cost as cost
from gatewise.surgery.reasons import Reason as Reason
from gatewise.surgery.rewrite.applying import receipt as receipt
from gatewise.surgery.rewrite.applying import undo as undo
from gatewise.surgery.rewrite.optimizer import check_optimizer
from gatewise.surgery.swaps.galu import twin_of as twin_of
from gatewise.surgery.swaps.own_plans import OWN, make_own_plan
from gatewise.surgery.tools.deployment import DeployReceipt as DeployReceipt
from gatewise.surgery.tools.deployment import deploy as deploy
from gatewise.surgery.tools.merge_receipts import MergeCurve as MergeCurve
from gatewise.surgery.tools.merge_receipts import MergePoint as MergePoint
from gatewise.surgery.tools.merge_receipts import MergeReceipt as MergeReceipt
from gatewise.surgery.tools.orthogonal_weights import OrthogonalReceipt as OrthogonalReceipt
from gatewise.surgery.tools.orthogonal_weights import orthogonalize as orthogonalize
from gatewise.surgery.tools.pair_merging import merge_curve as merge_curve
from gatewise.surgery.tools.pair_merging import merge_pairs as merge_pairs
from gatewise.surgery.tools.paired_relu import PairedReLU as PairedReLU
from gatewise.surgery.tools.width_matching import Match as Match
from gatewise.surgery.tools.width_matching import match as match


def plan(
    model: nn.Module,
    unit: str,
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
    """What putting ``unit`` into ``model`` takes, site by site. Nothing is changed.

    Args: unit: a unit's name; ``"crelu"``; ``"concat_act"``, which is ``[act(x), act(-x)]`` for any
        activation; or
            ``"psc"``, phase selective layers in place of activation and next layer (option
            ``put_back``: other readers are given the activation again, instead of a refusal).
            ``"iieu_b"`` is bound to the layer before it, and where that is a residual addition,
            ``placement="before"`` puts units into the branches instead; ``"iieu_dc"`` does so too,
            and puts a :class:`~gatewise.nn.Coupler` in place of each addition. ``"beta"``: beta
            forms of rectifiers, maxout and max pooling (options ``within``, ``learn_beta``,
            ``per_channel``); ``"galu"``: gates from a twin of the network (options ``gate``,
            ``twin``).
        example: a tensor, a tuple of positional arguments or a dict of keyword arguments to run the
            model on.
        where: which sites: a glob, ``"re:..."``, ``"class:..."``, ``"role:..."``,
            ``"depth:0-0.5"``, a compiled pattern, a class, a function of a site, or several of
            these.
        width: for units with two outputs per channel, ``"half"`` (the layer in front is halved,
            those behind stay) or ``"same"`` (those behind are widened). Default: ``"same"`` if
            ``preserve``, else ``"half"``.
        preserve: the changed model computes the same function as before; what cannot is refused. A
            unit of an activation's own name is given its numbers (``slope``, ``alpha``, ``beta``).
        policy: what may be widened besides the layers that read a widened tensor: ``"consumers"``
            nothing, ``"gates"`` the factors it is multiplied with, ``"streams"`` also what it is
            added to.
        gates: take sigmoid gates too.
        match: ``"parameters"`` or ``"flops"``: scale widths so that the swapped model costs as much
            as ``model`` does, within 1 %. Layers lose their last filters; where they grow, new
            filters are copies and the weights that read them are drawn anew. A network with a width
            option is better built anew: :func:`match` finds it.
        **options: the unit's own.

    A site that cannot change is in the plan with its reason. A plan that would change nothing is an
    error.
    """
    choices: dict[str, Any] = {
        "where": where,
        "preserve": preserve,
        "gates": gates,
        "options": options,
    }
    if unit in BOUND:
        choices |= {"placement": options.pop("placement", None)}
    else:
        choices |= {"width": width} if unit in OWN else {"width": width, "policy": policy}
    make = make_bound_plan if unit in BOUND else make_own_plan if unit in OWN else make_plan
    if match is None:
        return make(model, unit, example, **choices)
    if unit in OWN:
        raise ArgumentError(
            f"{unit}: widths cannot be matched", got=f"match={match!r}", fix="leave match out"
        )
    return match_plan(lambda each: make(each, unit, example, **choices), model, match)


def swap(
    model: nn.Module,
    unit: str,
    example: Example,
    *,
    inplace: bool = False,
    optimizer: Any = None,
    **choices: Any,
) -> nn.Module:
    """Plan and do it: the changed model, with a receipt (:func:`receipt`), a copy unless ``inplace``.

    ``choices`` are those of :func:`plan`. An ``optimizer`` of the model is carried over, groups and state; that needs
    ``inplace``. If anything fails, the model handed in is as it was.
    """
    check_optimizer(optimizer, model, inplace)
    return plan(model, unit, example, **choices).apply(model, inplace=inplace, optimizer=optimizer)
