"""Find the layers that make the input of an activation, and those that read its output."""

from collections.abc import Callable, Iterable

from gatewise.graph.ops import (
    BROADCAST,
    CHANNEL_NORMS,
    CUTS,
    ELEMENTWISE,
    LAST_NORMS,
    LEAVES,
    MOVES,
    PRODUCTS,
    REDUCTIONS,
    RESHAPES,
    SPATIAL,
    SPLITS,
    Kind,
    operators_of,
)
from gatewise.graph.trace import Node

# Operators without a weight matrix. The search for producers and consumers continues past them.
PASSED = (
    ELEMENTWISE
    | BROADCAST
    | CHANNEL_NORMS
    | LAST_NORMS
    | SPATIAL
    | RESHAPES
    | MOVES
    | CUTS
    | SPLITS
    | REDUCTIONS
    | operators_of(Kind.EXPAND, Kind.JOIN, Kind.GETITEM, Kind.SOFTMAX)
)
# Operators that a gate may go through before it is multiplied.
ON_THE_WAY_TO_A_PRODUCT = ELEMENTWISE | RESHAPES | MOVES | operators_of(Kind.EXPAND)
STORED = LEAVES - {"input"}


def producers(node: Node, stop: Iterable[Node] = ()) -> list[Node]:
    """Return the nearest layers and model inputs that ``node`` is made from, in call order.

    Args:
        node: the node, which is itself returned if it is a layer or an input.
        stop: further nodes at which the search ends; those that it meets are returned, too.
    """
    return _nearest(node, lambda current: current.inputs, frozenset(stop))


def consumers(node: Node) -> list[Node]:
    """Return the nearest layers that read ``node``, and the model's output if it does."""
    readers: set[Node] = set()
    for user in node.users:
        readers.update(_nearest(user, lambda current: current.users, frozenset()))
    return sorted(readers, key=lambda reader: reader.index)


def ancestors(node: Node) -> set[Node]:
    """Return every node that ``node`` depends on."""
    seen: set[Node] = set()
    waiting = [node]
    while waiting:
        for source in waiting.pop().inputs:
            if source not in seen:
                seen.add(source)
                waiting.append(source)
    return seen


def multiplies_own_ancestor(node: Node) -> bool:
    """Return whether ``node`` is later multiplied with a tensor that it was made from.

    That is how a gate is used. Operators with a weight end the search.
    """
    before = ancestors(node)
    for user in node.users:
        if user.op in PRODUCTS:
            for factor in user.inputs:
                if factor in before and factor.op not in LEAVES:
                    return True
        if user.op in ON_THE_WAY_TO_A_PRODUCT and multiplies_own_ancestor(user):
            return True
    return False


def _nearest(
    start: Node,
    neighbours: Callable[[Node], Iterable[Node]],
    stop: frozenset[Node],
) -> list[Node]:
    """Return the first nodes that are not in ``PASSED`` on every way from ``start``."""
    nearest: list[Node] = []
    seen = {start}
    waiting = [start]
    while waiting:
        node = waiting.pop()
        if node.op not in PASSED or node in stop:
            if node.op not in STORED:
                nearest.append(node)
            continue
        for neighbour in neighbours(node):
            if neighbour not in seen:
                seen.add(neighbour)
                waiting.append(neighbour)
    return sorted(nearest, key=lambda node: node.index)
