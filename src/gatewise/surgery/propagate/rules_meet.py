"""What happens where a changed tensor meets another, element by element."""

from gatewise.graph import MASKS, PRODUCTS, Node, broadcast_dim
from gatewise.surgery.propagate.maps import ChannelMap
from gatewise.surgery.propagate.sweep import Sweep
from gatewise.surgery.reasons import Reason, Refusal

STORED = ("parameter", "buffer", "constant")


def meets(sweep: Sweep, node: Node) -> None:
    """Both must be changed alike.

    One that is not: a parameter follows, a gate or a stream as the policy says.
    """
    first = _result_map(sweep, node)
    for other in node.inputs:
        place = broadcast_dim(first.dim, node.rank, other.shape or ())
        if place is None:
            continue
        change = sweep.map_of(other)
        if change is None:
            _check_policy(sweep, node, other)
            sweep.need(other, first.moved(place))
        elif not change.same_as(first.moved(place)):
            raise Refusal(Reason.DIFFERENT, node.scope[0])
    sweep.maps[node] = first


def _result_map(sweep: Sweep, node: Node) -> ChannelMap:
    """The change of any input, along the dimension it has in the result."""
    for each in node.inputs:
        change = sweep.map_of(each)
        if change is not None:
            return change.moved(change.dim + node.rank - each.rank)
    raise Refusal(Reason.DIFFERENT, node.scope[0])


def _check_policy(sweep: Sweep, node: Node, other: Node) -> None:
    if is_stored(other):
        return
    product = node.op in PRODUCTS | MASKS
    if product and sweep.policy == "consumers":
        raise Refusal(Reason.GATED, node.scope[0])
    if not product and sweep.policy != "streams":
        raise Refusal(Reason.RESIDUAL, node.scope[0])


def is_stored(node: Node) -> bool:
    """Whether ``node`` is made from parameters and buffers alone.

    A scale or an offset, not a stream.
    """
    return node.op in STORED or (bool(node.inputs) and all(is_stored(each) for each in node.inputs))


def leaf(sweep: Sweep, node: Node) -> None:
    """A parameter or buffer that has to follow what it meets."""
    wanted = sweep.sources[node]
    sweep.edit(node, node, wanted.dim, wanted, "copy")
    sweep.maps[node] = wanted
