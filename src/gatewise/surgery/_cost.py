"""What a model costs, counted on its graph: parameters, and operations of one forward pass on the example.

A multiplication and the addition that goes with it are two operations, each element of an elementwise operation is
one: activations are counted, not called free.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Set

from torch import nn

from gatewise.sites._node import Graph, Node
from gatewise.sites._ops import BROADCAST, CHANNEL_NORMS, CONVOLUTIONS, ELEMENTWISE, LAST_NORMS, POOLS, TRANSPOSED
from gatewise.surgery._edits import Edit
from gatewise.surgery._maps import ChannelMap
from gatewise.surgery._sweep import Maps

COUNTED = ELEMENTWISE | BROADCAST | CHANNEL_NORMS | LAST_NORMS | POOLS
Size = Callable[[Node], int]


def growth(edits: Iterable[Edit], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, float]:
    """By how much each edited parameter grows."""
    factors: dict[str, float] = {}
    for edit in edits:
        factors[edit.name] = factors.get(edit.name, 1.0) * len(edit.index) / shapes[edit.name][edit.dim]
    return factors


def parameter_count(model: nn.Module, factors: Mapping[str, float] | None = None) -> int:
    """Numbers that can be trained, each tied one once, after the growth ``factors``."""
    sizes = ((parameter.numel(), (factors or {}).get(name, 1.0)) for name, parameter in model.named_parameters())
    return round(sum(size * factor for size, factor in sizes))


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
        whole = math.prod(node.shape or (0,))
        if not isinstance(change, ChannelMap) or not node.shape:
            return whole
        return whole // node.shape[change.dim] * len(change)

    return round(sum(_of(node, size, factors) * (1 + (node.scope[0] in twice)) for node in graph))


def _of(node: Node, size: Size, factors: Mapping[str, float]) -> float:
    if node.op in CONVOLUTIONS | TRANSPOSED | {"linear"}:
        weight = node.arguments["weight"]
        positions = _positions(node) if node.op not in TRANSPOSED else _positions(node.inputs[0])
        return 2 * positions * math.prod(weight.shape) * factors.get(weight.name, 1.0)
    if node.op == "addmm":
        weight = node.arguments["mat2"]
        return 2 * (node.shape or (0,))[0] * math.prod(weight.shape) * factors.get(weight.name, 1.0)
    if node.op in ("matmul", "mm", "bmm") and node.inputs[0].shape:
        return 2 * size(node) * node.inputs[0].shape[-1]
    if node.op == "scaled_dot_product_attention" and node.inputs[1].shape:
        return 4 * size(node) * node.inputs[1].shape[-2]
    return size(node) if node.op in COUNTED else 0


def _positions(node: Node) -> int:
    """Places a weight is applied at: the batch times everything that is not channels."""
    shape = node.shape or (0,)
    channels = shape[-1] if node.op == "linear" else shape[-int(node.op[-2]) - 1] if node.op[-1] == "d" else 1
    return math.prod(shape) // max(1, channels)
