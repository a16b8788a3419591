"""How a tensor is made wider or narrower.

Walk back from it to the weights that make it, and mark them.
"""

from gatewise.graph import Node, broadcast_dim, group_of, order_of
from gatewise.surgery.propagate.maps import ChannelMap
from gatewise.surgery.propagate.sweep import Sweep
from gatewise.surgery.reasons import Reason, Refusal


def by_weight(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """A layer or a parameter: its own rows."""
    if node.op in ("parameter", "buffer") and not (
        node.shape and node.shape[wanted.dim] > int(wanted.index.max())
    ):
        raise Refusal(Reason.DIFFERENT, node.name)
    sweep.sources[node] = wanted


def by_convolution(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """Its rows; a depthwise one has none of its own, so its input must be changed."""
    groups = int(node.arguments["groups"])
    source = node.inputs[0]
    if (
        groups > 1
        and source.shape
        and groups == source.shape[wanted.dim] == (node.shape or ())[wanted.dim]
    ):
        sweep.make(source, wanted)
    else:
        sweep.sources[node] = wanted


def by_linear(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """Its rows; along another dimension, its input."""
    if wanted.dim == node.rank - 1:
        sweep.sources[node] = wanted
    else:
        sweep.make(node.inputs[0], wanted)


def by_input(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """The first input, along the same dimension."""
    sweep.make(node.inputs[0], wanted)


def by_reduction(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """The first input, if no dimension was lost."""
    if node.rank != node.inputs[0].rank:
        raise Refusal(Reason.RESHAPE, node.op)
    sweep.make(node.inputs[0], wanted)


def by_all(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """Everything that meets there, but what is repeated along the channels."""
    for each in node.inputs:
        place = broadcast_dim(wanted.dim, node.rank, each.shape or ())
        if place is not None:
            sweep.make(each, wanted.moved(place))


def by_moving(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """Where the dimension came from."""
    order = order_of(node)
    if order is None or order[wanted.dim] < 0:
        raise Refusal(Reason.RESHAPE, node.op)
    sweep.make(node.inputs[0], wanted.moved(order[wanted.dim]))


def by_reshape(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """Where the dimension came from, if it came whole."""
    source = node.inputs[0]
    group = group_of(wanted.dim, node.shape or (), source.shape or ())
    if group is None or len(group[0]) != 1 or len(group[1]) != 1:
        raise Refusal(Reason.RESHAPE, node.op)
    sweep.make(source, wanted.moved(group[1][0]))


def by_expansion(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """The first input, which has fewer dimensions in front."""
    source = node.inputs[0]
    place = broadcast_dim(wanted.dim, node.rank, source.shape or ())
    if place is not None:
        sweep.make(source, wanted.moved(place))


def by_parts(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """Along the channels each part its own share, in order.

    Along another dimension all parts alike.
    """
    parts: list[Node] = list(node.arguments["tensors"])
    dim = int(node.arguments.get("dim") or 0) % node.rank
    if dim != wanted.dim:
        for part in parts:
            sweep.make(part, wanted)
        return
    start = first = 0
    for part in parts:
        width = part.shape[dim] if part.shape else 0
        mine = (wanted.index >= start) & (wanted.index < start + width)
        count = int(mine.sum())
        if not bool(mine[first : first + count].all()):
            raise Refusal(Reason.DIFFERENT, "parts of a concatenation would interleave")
        share = ChannelMap(dim, wanted.index[mine] - start, wanted.new[mine])
        if bool(share.new.any()) or count != width:
            sweep.make(part, share)
        start, first = start + width, first + count


def by_nothing(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """The model's input, or a constant in its code."""
    raise Refusal(Reason.INPUT, node.name)


def by_norm(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """A norm over the channels cannot be widened."""
    raise Refusal(Reason.NORM, node.scope[0])
