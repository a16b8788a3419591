"""Put any unit into any model: plan it, do it, prove it.

Note [How]. A model is read as a graph of activation sites (``gatewise.sites``). A change of channels at a site is
followed over the graph as a map of channels; each operator's rule passes it on, ends it with an edit of a parameter, or
refuses. What is done is plain data: parameters indexed along a dimension, sizes written anew, units put at paths or,
for functional and reused calls, into rewritten methods. The module tree stays the user's own: class, names, state dict.
"""

from typing import Any

from torch import nn

from gatewise.sites._example import Example
from gatewise.surgery._deploy import DeployReceipt as DeployReceipt
from gatewise.surgery._deploy import deploy as deploy
from gatewise.surgery._galu import twin_of as twin_of
from gatewise.surgery._merge_pairs import merge_curve as merge_curve
from gatewise.surgery._merge_pairs import merge_pairs as merge_pairs
from gatewise.surgery._merge_receipt import MergeCurve as MergeCurve
from gatewise.surgery._merge_receipt import MergePoint as MergePoint
from gatewise.surgery._merge_receipt import MergeReceipt as MergeReceipt
from gatewise.surgery._optimizer import check_optimizer
from gatewise.surgery._orthogonal import OrthogonalReceipt as OrthogonalReceipt
from gatewise.surgery._orthogonal import orthogonalize as orthogonalize
from gatewise.surgery._own_plans import OWN, make_own_plan
from gatewise.surgery._paired_relu import PairedReLU as PairedReLU
from gatewise.surgery._plan import Entry as Entry
from gatewise.surgery._plan import Plan as Plan
from gatewise.surgery._planner import make_plan
from gatewise.surgery._proof import SwapFailed as SwapFailed
from gatewise.surgery._reasons import Reason as Reason
from gatewise.surgery._receipt import Proof as Proof
from gatewise.surgery._receipt import Receipt as Receipt
from gatewise.surgery._select import Where
from gatewise.surgery._swap import receipt as receipt
from gatewise.surgery._swap import undo as undo

__all__ = [
    "DeployReceipt",
    "Entry",
    "MergeCurve",
    "MergePoint",
    "MergeReceipt",
    "OrthogonalReceipt",
    "PairedReLU",
    "Plan",
    "Proof",
    "Reason",
    "Receipt",
    "SwapFailed",
    "deploy",
    "merge_curve",
    "merge_pairs",
    "orthogonalize",
    "plan",
    "receipt",
    "swap",
    "twin_of",
    "undo",
]


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
    **options: Any,
) -> Plan:
    """What putting ``unit`` into ``model`` takes, site by site. Nothing is changed.

    Args:
        unit: a unit's name; ``"crelu"``; ``"concat_act"``, which is ``[act(x), act(-x)]`` for any activation;
            ``"psc"``, phase selective layers in place of activation and next layer; ``"beta"``, beta forms of
            rectifiers, maxout and max pooling (options ``within``, ``learn_beta``, ``per_channel``); or ``"galu"``,
            gates from a twin of the network (options ``gate``, ``twin``).
        example: a tensor, a tuple of positional arguments or a dict of keyword arguments to run the model on.
        where: which sites: a glob, ``"re:..."``, ``"class:..."``, ``"role:..."``, ``"depth:0-0.5"``, a compiled
            pattern, a class, a function of a site, or several of these.
        width: for units with two outputs per channel, ``"half"`` (the layer in front is halved, those behind stay) or
            ``"same"`` (those behind are widened). Default: ``"same"`` if ``preserve``, else ``"half"``.
        preserve: the changed model computes the same function as before; what cannot is refused.
        policy: what may be widened besides the layers that read a widened tensor: ``"consumers"`` nothing,
            ``"gates"`` the factors it is multiplied with, ``"streams"`` also what it is added to.
        gates: take sigmoid gates too.
        **options: the unit's own.

    A site that cannot change is in the plan with its reason. A plan that would change nothing is an error.
    """
    if unit in OWN:
        return make_own_plan(
            model, unit, example, where=where, width=width, preserve=preserve, gates=gates, options=options
        )
    return make_plan(
        model, unit, example, where=where, width=width, preserve=preserve, policy=policy, gates=gates, options=options
    )


def swap(
    model: nn.Module, unit: str, example: Example, *, inplace: bool = False, optimizer: Any = None, **choices: Any
) -> nn.Module:
    """Plan and do it: the changed model, with a receipt (:func:`receipt`), a copy unless ``inplace``.

    ``choices`` are those of :func:`plan`. An ``optimizer`` of the model is carried over, groups and state; that needs
    ``inplace``. If anything fails, the model handed in is as it was.
    """
    check_optimizer(optimizer, model, inplace)
    return plan(model, unit, example, **choices).apply(model, inplace=inplace, optimizer=optimizer)
