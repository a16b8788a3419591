"""Find the dimension of each tensor that holds its channels.

Layers define it. A forward sweep carries it to the tensors made from their outputs, and a backward
sweep to the tensors that only a layer further on tells about, such as the input of the model.
"""

from gatewise.graph.ops import (
    BROADCAST,
    CHANNEL_NORMS,
    CONVOLUTIONS,
    CUTS,
    ELEMENTWISE,
    LAST_NORMS,
    LEAVES,
    LINEAR,
    MOVES,
    REDUCTIONS,
    RESHAPES,
    SPATIAL,
    SPLITS,
    TRANSPOSED,
    Kind,
    get_operator,
    operators_of,
)
from gatewise.graph.shapes import group_of, order_of
from gatewise.graph.trace import Graph, Node

Dims = dict[Node, int]

CHANNELS_LAST = LINEAR | LAST_NORMS | operators_of(Kind.EMBEDDING, Kind.ATTENTION, Kind.BILINEAR)
# The channels stay at the same place, counted from the last dimension.
SHUFFLES = operators_of(Kind.SHUFFLE)
CHANNELS_KEPT = (
    ELEMENTWISE | BROADCAST | SPATIAL | SHUFFLES | {"cat", "getitem", "expand", "expand_as"}
)


def channel_dims(graph: Graph) -> Dims:
    """Return the channel dimension of every node that has one, counted from the front."""
    dims: Dims = {}
    for node in graph:
        dim = _from_layer(node)
        if dim is None and node.op != "output" and node.op not in LEAVES:
            dim = _inherited(node, dims)
        if dim is not None:
            dims[node] = dim
    # Backwards: a tensor that no layer before it tells about has the channels its readers expect.
    for node in reversed(graph.nodes):
        for user in node.users:
            if node in dims or not node.shape:
                break
            dim = _from_user(node, user, dims)
            if dim is not None:
                dims[node] = dim
    return dims


def _from_layer(node: Node) -> int | None:
    """Return the channel dimension of the output of a layer; ``None`` if ``node`` is no layer."""
    if not node.shape:
        return None
    if node.op in CONVOLUTIONS | TRANSPOSED:
        # An unbatched input has no dimension before its channels.
        return node.rank - get_operator(node.op).spatial_dims - 1
    if node.op in CHANNEL_NORMS:
        return 1 if node.rank > 1 else None
    return node.rank - 1 if node.op in CHANNELS_LAST else None


def _inherited(node: Node, dims: Dims) -> int | None:
    """Return where the channels of the first input that has some are in the output."""
    source = next((value for value in node.inputs if value in dims), None)
    if source is None or node.op in CHANNELS_LAST:
        return None
    dim = dims[source]
    if node.op in SPLITS:
        if node.op == "unbind":
            return _after_unbinding(node, source.rank, dim)
        return dim
    if node.op == "getitem" and source.op in SPLITS:
        return dim
    if node.shape is None or source.shape is None:
        return None
    if node.op in MOVES:
        order = order_of(node)
        return order.index(dim) if order and dim in order else None
    if node.op in RESHAPES:
        group = group_of(dim, source.shape, node.shape)
        if group and len(group[1]) == 1:
            return group[1][0]
        return None
    if node.op in REDUCTIONS | CUTS:
        if node.rank == source.rank:
            return dim
        return _after_reduction(node, source.rank, dim)
    if node.op in CHANNELS_KEPT:
        return dim + node.rank - source.rank
    return None


def _after_unbinding(node: Node, rank: int, dim: int) -> int | None:
    """Return where dimension ``dim`` is in each part; ``None`` if the call takes it apart."""
    removed = int(node.arguments.get("dim") or 0) % rank
    return None if dim == removed else dim - (removed < dim)


def _after_reduction(node: Node, rank: int, dim: int) -> int | None:
    """Return where dimension ``dim`` is after the call removed some; ``None`` if it was removed."""
    removed = node.arguments.get("dim")
    if isinstance(removed, int):
        removed = [removed]
    removed = {number % rank for number in removed or range(rank)}
    if dim in removed:
        return None
    return dim - sum(number < dim for number in removed)


def _from_user(node: Node, user: Node, dims: Dims) -> int | None:
    """Return the channel dimension that ``user``, a reader of ``node``, expects."""
    if user.inputs[0] is node:
        if user.op in CONVOLUTIONS:
            return node.rank - get_operator(user.op).spatial_dims - 1
        if user.op == "linear" or user.op in LAST_NORMS:
            return node.rank - 1
        if user.op in CHANNEL_NORMS:
            return 1
    same = user.op in ELEMENTWISE | SPATIAL and user.rank == node.rank
    return dims.get(user) if same else None
