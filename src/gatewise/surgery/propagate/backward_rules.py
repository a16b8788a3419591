"""Backward rules: walk from a tensor that must change back to the weights that make it.

Every rule has the same arguments: the sweep, the node that makes the tensor, and the channel map
that the tensor must get. It marks the node as a source or passes the demand on to its inputs.
"""

from gatewise.graph import Node, broadcast_dim, group_of, order_of
from gatewise.surgery.propagate.maps import ChannelMap
from gatewise.surgery.propagate.sweep import Sweep
from gatewise.surgery.reasons import Reason, Refusal


def by_weight(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """Change the rows of a layer, or a parameter itself."""
    if node.op in ("parameter", "buffer"):
        width = node.shape[wanted.dim] if node.shape else 0
        if width <= int(wanted.index.max()):
            raise Refusal(Reason.DIFFERENT, node.name)
    sweep.sources[node] = wanted


def by_convolution(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """Change the rows of a convolution.

    The output channels of a depthwise convolution follow its input, so the input is changed.
    """
    groups = int(node.arguments["groups"])
    source = node.inputs[0]
    dim = wanted.dim
    if groups > 1 and source.shape and groups == source.shape[dim] == (node.shape or ())[dim]:
        sweep.trace_back(source, wanted)
    else:
        sweep.sources[node] = wanted


def by_linear(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """Change the rows of a linear layer, or its input if another dimension must change."""
    if wanted.dim == node.rank - 1:
        sweep.sources[node] = wanted
    else:
        sweep.trace_back(node.inputs[0], wanted)


def by_input(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """Change the first input along the same dimension."""
    sweep.trace_back(node.inputs[0], wanted)


def by_reduction(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """Change the first input of a reduction that keeps its dimensions."""
    if node.rank != node.inputs[0].rank:
        raise Refusal(Reason.RESHAPE, node.op)
    sweep.trace_back(node.inputs[0], wanted)


def by_all(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """Change all inputs, except those that are broadcast along the channels."""
    for source in node.inputs:
        place = broadcast_dim(wanted.dim, node.rank, source.shape or ())
        if place is not None:
            sweep.trace_back(source, wanted.moved(place))


def by_moving(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """Change the input of a permutation along the dimension before it was moved."""
    order = order_of(node)
    if order is None or order[wanted.dim] < 0:
        raise Refusal(Reason.RESHAPE, node.op)
    sweep.trace_back(node.inputs[0], wanted.moved(order[wanted.dim]))


def by_reshape(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """Change the input of a reshape that neither merges nor splits the dimension."""
    source = node.inputs[0]
    group = group_of(wanted.dim, node.shape or (), source.shape or ())
    if group is None or len(group[0]) != 1 or len(group[1]) != 1:
        raise Refusal(Reason.RESHAPE, node.op)
    sweep.trace_back(source, wanted.moved(group[1][0]))


def by_expansion(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """Change the first input of an expansion, which may have fewer leading dimensions."""
    source = node.inputs[0]
    place = broadcast_dim(wanted.dim, node.rank, source.shape or ())
    if place is not None:
        sweep.trace_back(source, wanted.moved(place))


def by_parts(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """Change the parts of a concatenation.

    Along the channels, every part gets its share of the map. Along another dimension, all parts get
    the same map.
    """
    parts: list[Node] = list(node.arguments["tensors"])
    dim = int(node.arguments.get("dim") or 0) % node.rank
    if dim != wanted.dim:
        for part in parts:
            sweep.trace_back(part, wanted)
        return
    start = first = 0
    for part in parts:
        width = part.shape[dim] if part.shape else 0
        of_part = (wanted.index >= start) & (wanted.index < start + width)
        count = int(of_part.sum())
        if not bool(of_part[first : first + count].all()):
            raise Refusal(Reason.DIFFERENT, "parts of a concatenation would interleave")
        share = ChannelMap(dim, wanted.index[of_part] - start, wanted.new[of_part])
        if bool(share.new.any()) or count != width:
            sweep.trace_back(part, share)
        start += width
        first += count


def by_split(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """Refuse to widen one part of a split: the split would cut the widened tensor elsewhere."""
    raise Refusal(Reason.SPLIT, node.inputs[0].op)


def by_nothing(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """Refuse to change the model's input, or a constant in its code."""
    raise Refusal(Reason.INPUT, node.name)


def by_norm(sweep: Sweep, node: Node, wanted: ChannelMap) -> None:
    """Refuse to widen the output of a norm over the channels."""
    raise Refusal(Reason.NORM, node.scope[0])
