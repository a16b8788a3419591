"""Count the parameters of a model and the operations of one forward pass on the example.

A multiplication and the addition that follows it are two operations. Each output element of an
elementwise operator, a normalisation or a pooling is one operation.

Note [Forward only]. ``where(condition, x.detach(), x)`` stops a gradient and leaves the value as it
is. It counts as nothing, and so does a condition that has no other use.
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
    get_operator,
)
from gatewise.graph.trace import Node
from gatewise.graph.written_activations import RECURRENT

SAME_TENSOR = frozenset({"detach", "alias"})
ONE_PER_ELEMENT = (ELEMENTWISE | BROADCAST | CHANNEL_NORMS | LAST_NORMS | POOLS) - SAME_TENSOR
NO_GROWTH: Mapping[str, float] = MappingProxyType({})


def parameter_count(model: nn.Module, factors: Mapping[str, float] | None = None) -> int:
    """Return the number of entries of all parameters. Tied parameters count once.

    Args:
        model: the model.
        factors: by how much each parameter grows, by its name; 1 for those that are not named.
    """
    factors = factors or NO_GROWTH
    count = 0.0
    for name, parameter in model.named_parameters():
        count += parameter.numel() * factors.get(name, 1.0)
    return round(count)


def whole_size(node: Node) -> int:
    """Return the number of elements of the tensor that ``node`` makes."""
    return math.prod(node.shape or (0,))


def node_operations(
    node: Node,
    size: Callable[[Node], int] = whole_size,
    factors: Mapping[str, float] = NO_GROWTH,
) -> float:
    """Return the number of operations of one call.

    Args:
        node: the call.
        size: returns the number of elements of a node; another than :func:`whole_size` counts the
            call on tensors of other widths.
        factors: by how much each parameter grows, by its name; 1 for those that are not named.
    """
    if node.op in CONVOLUTIONS | TRANSPOSED | {"linear"}:
        weight = node.arguments["weight"]
        return 2 * _positions(node) * math.prod(weight.shape) * factors.get(weight.name, 1.0)
    if node.op == "addmm":
        weight = node.arguments["mat2"]
        rows = (node.shape or (0,))[0]
        return 2 * rows * math.prod(weight.shape) * factors.get(weight.name, 1.0)
    if node.op in ("matmul", "mm", "bmm") and node.inputs[0].shape:
        return 2 * size(node) * node.inputs[0].shape[-1]
    if node.op == "scaled_dot_product_attention" and node.inputs[1].shape:
        # Queries times keys, and weights times values: one product each.
        return 4 * size(node) * node.inputs[1].shape[-2]
    if node.op in RECURRENT:
        return _recurrent_operations(node, factors)
    if node.op == "einsum" and len(node.arguments["tensors"]) > 1:
        return 2 * size(node) * _summed_size(node)
    if node.op not in ONE_PER_ELEMENT or _stops_gradient(node) or _is_for_gradients(node):
        return 0
    return size(node)


def _recurrent_operations(node: Node, factors: Mapping[str, float]) -> float:
    """Return the operations of a recurrent layer: every matrix is applied at every step."""
    steps = math.prod((node.arguments["input"].shape or (0,))[:-1])
    weights = node.arguments.get("params") or [node.arguments["w_ih"], node.arguments["w_hh"]]
    total = 0.0
    for weight in weights:
        if len(weight.shape) == 2:
            total += 2 * steps * math.prod(weight.shape) * factors.get(weight.name, 1.0)
    return total


def _summed_size(node: Node) -> int:
    """Return the number of products that ``einsum`` adds up for each element of its result."""
    terms, arrow, kept = node.arguments["equation"].replace(" ", "").partition("->")
    if not arrow:
        kept = "".join(letter for letter in terms if terms.count(letter) == 1)
    sizes: dict[str, int] = {}
    for term, tensor in zip(terms.split(","), node.arguments["tensors"], strict=True):
        before, _, after = term.partition("...")
        sizes |= dict(zip(before, tensor.shape, strict=False))
        sizes |= dict(zip(after[::-1], tensor.shape[::-1], strict=False))
    return math.prod(size for letter, size in sizes.items() if letter not in kept)


def _stops_gradient(node: Node) -> bool:
    """Return whether a choice is between a tensor and the same tensor, detached."""
    if node.op != "where":
        return False
    first, second = node.tensor("self"), node.tensor("other")
    return first is not None and second is not None and _value_of(first) is _value_of(second)


def _value_of(node: Node) -> Node:
    """Return the node that computes the values that ``node`` passes on."""
    while node.op in SAME_TENSOR:
        node = node.inputs[0]
    return node


def _is_for_gradients(node: Node) -> bool:
    """Return whether a condition, or the magnitude that it compares, is used to stop gradients."""
    if not node.users:
        return False
    if node.floating and node.op != "abs":
        return False
    for user in node.users:
        is_condition = not user.floating and _is_for_gradients(user)
        if not is_condition and (node.floating or not _stops_gradient(user)):
            return False
    return True


def _positions(layer: Node) -> int:
    """Return how often a weight is applied: the batch size times all sizes but the channels."""
    # A transposed convolution applies its weight once per position of its input.
    shape = (layer.inputs[0] if layer.op in TRANSPOSED else layer).shape or (0,)
    channels = shape[-get_operator(layer.op).spatial_dims - 1]
    return math.prod(shape) // max(1, channels)
