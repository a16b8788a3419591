"""What makes the tensor a site reads, and what reads the tensor it makes."""

from collections.abc import Callable, Iterable

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
    PRODUCTS,
    REDUCTIONS,
    RESHAPES,
    SPATIAL,
    SPLITS,
    TRANSPOSED,
)
from gatewise.graph.trace import Node

WEIGHTED = (
    CONVOLUTIONS | TRANSPOSED | LINEAR | {"embedding", "bilinear", "scaled_dot_product_attention"}
)
# What a producer is looked for behind, and a consumer beyond: no weight matrix stands in between.
PASSED = (
    *(
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
    ),
    *("cat", "stack", "getitem", "expand", "softmax", "_softmax"),
)
_PASSED = frozenset(PASSED)


def producers(node: Node, stop: Iterable[Node] = ()) -> list[Node]:
    """The nearest layers with a weight, inputs of the model, and nodes of ``stop``, that ``node`` is made from."""
    return _walk(node, lambda each: each.inputs, frozenset(stop))


def consumers(node: Node) -> list[Node]:
    """The nearest layers with a weight, and the model's output, that read ``node``."""
    found: list[Node] = []
    for user in node.users:
        found.extend(
            each for each in _walk(user, lambda one: one.users, frozenset()) if each not in found
        )
    return sorted(found, key=lambda each: each.index)


def ancestors(node: Node) -> set[Node]:
    """Every node that ``node`` depends on."""
    seen: set[Node] = set()
    waiting = [node]
    while waiting:
        for each in waiting.pop().inputs:
            if each not in seen:
                seen.add(each)
                waiting.append(each)
    return seen


def multiplies_own_ancestor(node: Node) -> bool:
    """Whether ``node``, on its way to the next layer, is a factor of something it was made from, as gates are."""
    before = ancestors(node)
    for user in node.users:
        if user.op in PRODUCTS and any(
            each in before and each.op not in LEAVES for each in user.inputs
        ):
            return True
        if user.op in ELEMENTWISE | RESHAPES | MOVES | {"expand"} and multiplies_own_ancestor(user):
            return True
    return False


def _walk(
    start: Node, following: Callable[[Node], Iterable[Node]], stop: frozenset[Node]
) -> list[Node]:
    found: list[Node] = []
    seen, waiting = {start}, [start]
    while waiting:
        node = waiting.pop()
        if node.op not in _PASSED or node in stop:
            if node.op not in ("parameter", "buffer", "constant"):
                found.append(node)
            continue
        for each in following(node):
            if each not in seen:
                seen.add(each)
                waiting.append(each)
    return sorted(found, key=lambda each: each.index)
