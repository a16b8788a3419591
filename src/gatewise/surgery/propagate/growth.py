"""What a model will cost once edits are made, counted on its graph as it is."""

from collections.abc import Iterable, Mapping, Set

from gatewise.graph import Graph, Node, node_operations, whole_size
from gatewise.surgery.propagate.edits import Edit
from gatewise.surgery.propagate.maps import ChannelMap
from gatewise.surgery.propagate.sweep import Maps


def growth(edits: Iterable[Edit], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, float]:
    """By how much each edited parameter grows."""
    factors: dict[str, float] = {}
    for edit in edits:
        factors[edit.name] = (
            factors.get(edit.name, 1.0) * len(edit.index) / shapes[edit.name][edit.dim]
        )
    return factors


def operations(
    graph: Graph,
    maps: Mapping[Node, Maps] | None = None,
    factors: Mapping[str, float] | None = None,
    *,
    twice: Set[str] = frozenset(),
) -> int:
    """Operations of one pass over ``graph``, its tensors changed by ``maps`` and its parameters by ``factors``.

    ``twice`` are layers with a weight for each phase of their input: each is applied.
    """
    maps, factors = maps or {}, factors or {}

    def size(node: Node) -> int:
        change = maps.get(node)
        whole = whole_size(node)
        if not isinstance(change, ChannelMap) or not node.shape:
            return whole
        return whole // node.shape[change.dim] * len(change)

    return round(
        sum(node_operations(node, size, factors) * (1 + (node.scope[0] in twice)) for node in graph)
    )
