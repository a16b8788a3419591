"""What a model costs, counted on its graph.

Parameters, and operations of one forward pass on the example.

A multiplication and the addition that goes with it are two operations, each element of an
elementwise operation is
one: activations are counted, not called free.
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from torch import nn

from gatewise.graph.ops import (
    BROADCAST,
    CHANNEL_NORMS,
    CONVOLUTIONS,
    ELEMENTWISE,
    LAST_NORMS,
    POOLS,
    TRANSPOSED,
)
from gatewise.graph.trace import Node

COUNTED = ELEMENTWISE | BROADCAST | CHANNEL_NORMS | LAST_NORMS | POOLS
NOTHING: Mapping[str, float] = MappingProxyType({})
Size = Callable[[Node], int]


def parameter_count(model: nn.Module, factors: Mapping[str, float] | None = None) -> int:
    """Numbers that can be trained, each tied one once, after the growth ``factors``."""
    sizes = (
        (parameter.numel(), (factors or {}).get(name, 1.0))
        for name, parameter in model.named_parameters()
    )
    return round(sum(size * factor for size, factor in sizes))


def whole_size(node: Node) -> int:
    """How many numbers a node holds."""
    return math.prod(node.shape or (0,))


def node_operations(
    node: Node, size: Size = whole_size, factors: Mapping[str, float] = NOTHING
) -> float:
    """Operations of one call, its tensors as large as ``size`` says and its parameters grown by ``factors``."""
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
    channels = (
        shape[-1]
        if node.op == "linear"
        else shape[-int(node.op[-2]) - 1]
        if node.op[-1] == "d"
        else 1
    )
    return math.prod(shape) // max(1, channels)
