"""Rules for operators where a changed tensor meets another one, element by element."""

from gatewise.graph import MASKS, PRODUCTS, Node, broadcast_dim
from gatewise.surgery.propagate.maps import ChannelMap
from gatewise.surgery.propagate.sweep import Sweep
from gatewise.surgery.reasons import Reason, Refusal

STORED = ("parameter", "buffer", "constant")


def meets(sweep: Sweep, node: Node) -> None:
    """Require the same change of all inputs.

    An unchanged parameter is changed too. Whether an unchanged gate or residual stream may be
    changed is decided by the policy.
    """
    first = _result_map(sweep, node)
    for source in node.inputs:
        place = broadcast_dim(first.dim, node.rank, source.shape or ())
        if place is None:
            continue  # broadcast along the channels, so it fits any number of them
        change = sweep.map_of(source)
        if change is None:
            _check_policy(sweep, node, source)
            sweep.need(source, first.moved(place))
        elif not change.same_as(first.moved(place)):
            raise Refusal(Reason.DIFFERENT, node.scope[0])
    sweep.maps[node] = first


def _result_map(sweep: Sweep, node: Node) -> ChannelMap:
    """Return the change of the first changed input, along its dimension in the result."""
    for source in node.inputs:
        change = sweep.map_of(source)
        if change is not None:
            return change.moved(change.dim + node.rank - source.rank)
    raise Refusal(Reason.DIFFERENT, node.scope[0])


def _check_policy(sweep: Sweep, node: Node, source: Node) -> None:
    """Refuse to widen an unchanged gate or residual stream that the policy excludes."""
    if is_stored(source):
        return
    product = node.op in PRODUCTS | MASKS
    if product and sweep.policy == "consumers":
        raise Refusal(Reason.GATED, node.scope[0])
    if not product and sweep.policy != "streams":
        raise Refusal(Reason.RESIDUAL, node.scope[0])


def is_stored(node: Node) -> bool:
    """Whether ``node`` is computed from parameters and buffers only, for example a scale."""
    if node.op in STORED:
        return True
    return bool(node.inputs) and all(is_stored(source) for source in node.inputs)


def leaf(sweep: Sweep, node: Node) -> None:
    """Edit a parameter or buffer so that it fits the changed tensor it meets."""
    wanted = sweep.sources[node]
    sweep.edit(node, node, wanted.dim, wanted, "copy")
    sweep.maps[node] = wanted
