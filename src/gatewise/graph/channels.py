"""Which dimension of each tensor holds its channels.

One sweep over the graph, from the layers that know.
"""

from gatewise.graph.ops import (
    BROADCAST,
    CHANNEL_NORMS,
    CONVOLUTIONS,
    CUTS,
    ELEMENTWISE,
    LAST_NORMS,
    LINEAR,
    MOVES,
    REDUCTIONS,
    RESHAPES,
    SPATIAL,
    SPLITS,
    TRANSPOSED,
)
from gatewise.graph.shapes import group_of, order_of
from gatewise.graph.trace import Graph, Node

Dims = dict[Node, int]
LAST = LINEAR | LAST_NORMS | {"embedding", "scaled_dot_product_attention"}


def channel_dims(graph: Graph) -> Dims:
    """The channel dimension of every node that has one, counted from the front."""
    dims: Dims = {}
    for node in graph:
        found = _from_layer(node)
        if found is None and node.op not in ("output", "parameter", "buffer", "constant", "input"):
            found = _inherited(node, dims)
        if found is not None:
            dims[node] = found
    for node in reversed(
        graph.nodes
    ):  # what no layer has said is taken from the layer that reads it
        for user in node.users:
            if (
                node not in dims
                and node.shape
                and (wanted := _wanted(node, user, dims)) is not None
            ):
                dims[node] = wanted
    return dims


def _from_layer(node: Node) -> int | None:
    if node.shape is None or not node.rank:
        return None
    if node.op in CONVOLUTIONS | TRANSPOSED:
        return (
            node.rank - int(node.op[-2]) - 1
        )  # an unbatched input has no dimension before its channels
    if node.op in CHANNEL_NORMS:
        return 1 if node.rank > 1 else None
    return node.rank - 1 if node.op in LAST else None


def _inherited(node: Node, dims: Dims) -> int | None:
    known = [(each, dims[each]) for each in node.inputs if each in dims]
    if not known or node.op in LAST:
        return None
    source, dim = known[0]
    if node.op in SPLITS:
        return dim
    if node.shape is None or source.shape is None:
        return None
    if node.op in MOVES:
        order = order_of(node)
        return order.index(dim) if order and dim in order else None
    if node.op in RESHAPES:
        group = group_of(dim, source.shape, node.shape)
        return group[1][0] if group and len(group[1]) == 1 else None
    if node.op in REDUCTIONS | CUTS:
        return dim if node.rank == source.rank else _after_reduction(node, source.rank, dim)
    if node.op in ELEMENTWISE | BROADCAST | SPATIAL | {"cat", "getitem", "expand"}:
        return dim + node.rank - source.rank
    return None


def _after_reduction(node: Node, rank: int, dim: int) -> int | None:
    gone = node.arguments.get("dim")
    gone = {gone} if isinstance(gone, int) else set(gone or range(rank))
    gone = {each % rank for each in gone}
    return None if dim in gone else dim - sum(each < dim for each in gone)


def _wanted(node: Node, user: Node, dims: Dims) -> int | None:
    if user.op in CONVOLUTIONS and user.inputs[0] is node:
        return node.rank - int(user.op[-2]) - 1
    if user.op in {"linear", *LAST_NORMS} and user.inputs[0] is node:
        return node.rank - 1
    if user.op in CHANNEL_NORMS and user.inputs[0] is node:
        return 1
    same = user.op in ELEMENTWISE | SPATIAL and user.rank == node.rank
    return dims.get(user) if same else None
