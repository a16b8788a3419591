"""A gated linear unit in place of the activation of a feed-forward part.

Note [Gated feed-forward parts]. ``W2 act(W1 x + b1) + b2`` with ``h`` channels becomes
``W2' (act(g) * u) + b2``. One layer makes both branches, the gate first. Gate rows are the first
``h'`` rows of ``W1``. Value rows start with weight 0 and bias 1, so that ``u`` is 1: the new part
computes ``act`` of the first ``h'`` channels. With ``h' = h`` and the same function it computes
what it did before. Layers without a bias cannot start so. Their value rows are drawn at random,
and the function is a new one.

Both parts have as many parameters at ``h' = h (d + d' + b) / (2 d + d' + 2 b)``, where ``d`` and
``d'`` are the widths before and after, and ``b`` is 1 if ``W1`` has a bias, else 0. That is 2/3 of
``h`` for ``d = d'`` without biases. The way back is in
:mod:`gatewise.surgery.swaps.plain_mlp`.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from torch import nn

from gatewise.checks import is_size
from gatewise.errors import ArgumentError
from gatewise.graph import ELEMENTWISE, Kind, Node, Site, SiteNodes, get_operator
from gatewise.surgery.planning import Draft, PlanningContext
from gatewise.surgery.propagate import ChannelMap, Edit
from gatewise.surgery.reasons import Reason, Refusal

MATCHED = "matched"
SAME = "same"
PASSED = (Kind.DROPOUT, Kind.IDENTITY, Kind.COPY)


class SharedLinear(nn.Linear):
    """A linear layer with the parameters of another one, for layers that do more with them.

    Args:
        linear: the layer whose parameters it takes over.
    """

    def __init__(self, linear: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.out_features, self.in_features = linear.weight.shape
        self.weight = linear.weight
        self.register_parameter("bias", linear.bias)


def check_hidden(unit: str, hidden: Any) -> None:
    """Raise unless ``hidden`` says how wide a gated feed-forward part shall be."""
    if hidden is None or hidden in (MATCHED, SAME) or is_size(hidden, 1):
        return
    raise ArgumentError(
        f"{unit}: hidden is not a width",
        got=hidden,
        allowed=f"{MATCHED!r} (as many parameters), {SAME!r}, or a number of channels",
    )


def matched_hidden(hidden: int, before: int, after: int, *, bias: bool) -> int:
    """Return the width of a gated feed-forward part with as many parameters, rounded.

    See Note [Gated feed-forward parts].

    Args:
        hidden: channels of the plain part.
        before: width of its input.
        after: width of its output.
        bias: whether its first layer has a bias.

    >>> matched_hidden(3072, 768, 768, bias=False)
    2048
    """
    extra = 1 if bias else 0
    return max(
        1, round(Fraction(hidden * (before + after + extra), 2 * before + after + 2 * extra))
    )


def matched_plain_hidden(hidden: int, before: int, after: int, *, bias: bool) -> int:
    """Return the width of a plain feed-forward part with as many parameters, rounded.

    See Note [Gated feed-forward parts].

    Args:
        hidden: channels of each branch of the gated part.
        before: width of its input.
        after: width of its output.
        bias: whether its first layers have a bias.

    >>> matched_plain_hidden(2048, 768, 768, bias=False)
    3072
    """
    extra = 1 if bias else 0
    return max(
        1, round(Fraction(hidden * (2 * before + after + 2 * extra), before + after + extra))
    )


@dataclass(frozen=True)
class FeedForward:
    """The two layers around an activation.

    Attributes:
        first: path of the layer that makes its input.
        second: path of the layer that reads its output.
        node: the call of the first layer.
    """

    first: str
    second: str
    node: Node


def feed_forward_of(context: PlanningContext, site: Site) -> FeedForward:
    """Return the layers around a site, or raise a :class:`Refusal`."""
    found = []
    for mode in site.modes:
        found.append(_layers(context, context.graph.readings[mode].site_nodes[site.name]))
    if any((each.first, each.second) != (found[0].first, found[0].second) for each in found):
        raise Refusal(Reason.NOT_MLP, "other layers in train mode")
    return found[0]


def _layers(context: PlanningContext, found: SiteNodes) -> FeedForward:
    first = found.input
    reader = next_layer(found.output)
    inside = (found.path, found.call)
    others = [user for user in first.users if found.kind == "functional" or user.scope != inside]
    if len(others) > (found.kind == "functional"):
        raise Refusal(Reason.BRANCH)
    for node in (first, reader):
        own_linear(context, node)
    if first.scope[0] == reader.scope[0]:
        raise Refusal(Reason.SHARED, first.scope[0])
    return FeedForward(first.scope[0], reader.scope[0], first)


def own_linear(context: PlanningContext, node: Node) -> nn.Linear:
    """Return the linear layer of torch that ``node`` calls, whose weight nothing else uses."""
    layer = context.modules.get(node.scope[0])
    if node.op != "linear" or type(layer) is not nn.Linear:
        raise Refusal(Reason.NOT_MLP, node.scope[0] or node.op)
    weight = node.tensor("weight")
    names = context.graph.aliases.get(f"{node.scope[0]}.weight", ())
    if weight is None or len(weight.users) != 1 or len(names) != 1:
        raise Refusal(Reason.SHARED, node.scope[0])
    return layer


def next_layer(node: Node) -> Node:
    """Return the only call that reads ``node``, dropout and copies passed over."""
    reader = _only_reader(node)
    while reader.op in ELEMENTWISE and get_operator(reader.op).kind in PASSED:
        reader = _only_reader(reader)
    return reader


def _only_reader(node: Node) -> Node:
    if len(node.users) != 1:
        raise Refusal(Reason.NOT_MLP, "several parts read its output")
    return node.users[0]


def gated_options(
    context: PlanningContext,
    site: Site,
    hidden: Any,
) -> dict[str, Any]:
    """Return the options of the unit at ``site``: its layout, width, and whether values start at 1.

    Args:
        context: the model.
        site: the activation.
        hidden: ``"matched"``, ``"same"`` or a number of channels.
    """
    part = feed_forward_of(context, site)
    first = context.modules[part.first]
    second = context.modules[part.second]
    assert isinstance(first, nn.Linear) and isinstance(second, nn.Linear)  # noqa: S101  checked
    bias = first.bias is not None
    width = first.out_features
    if hidden == MATCHED:
        width = matched_hidden(width, first.in_features, second.out_features, bias=bias)
    elif hidden != SAME:
        width = int(hidden)
    if width > first.out_features:
        raise Refusal(Reason.DIFFERENT, f"{width} of {first.out_features} channels")
    return {"dim": -1, "layout": "gate_first", "hidden": width, "ones": bias}


def draft_gated(context: PlanningContext, site: Site, draft: Draft) -> None:
    """Add the edits of both layers around ``site`` to the draft."""
    options = draft.options[site.name]
    part = feed_forward_of(context, site)
    width = int(options["hidden"])
    before = site.channels or 0
    kept = torch.arange(width, device="cpu")
    rows = kept.repeat(2)
    new = torch.arange(2 * width, device="cpu") >= width
    fill = "zero" if options["ones"] else "fresh"
    draft.put_edit(Edit(f"{part.first}.weight", 0, rows, new, fill))
    if options["ones"]:
        draft.put_edit(Edit(f"{part.first}.bias", 0, rows, new, "one"))
    if width < before:
        draft.put_edit(Edit(f"{part.second}.weight", 1, kept, new[:width], "copy"))
    draft.resize(part.first, "out_features", before, 2 * width)
    draft.resize(part.second, "in_features", before, width)
    node = part.node
    draft.maps = {**draft.maps, node: ChannelMap(node.rank - 1, rows, new)}
    draft.after[site.name] = width
