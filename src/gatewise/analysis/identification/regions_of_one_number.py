"""The part of a graph that is a function of one number, and its values."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.graph import (
    BROADCAST,
    ELEMENTWISE,
    LEAVES,
    MOVES,
    RESHAPES,
    Graph,
    Node,
    filled,
    leaf_value,
)


@dataclass(frozen=True, eq=False)
class NumberFunction:
    """A function that the model applies to every element by itself.

    Attributes:
        root: the tensor that it is a function of.
        end: its result, with which the model goes on.
        values: its values at the points.
    """

    root: Node
    end: Node
    values: Tensor


def root_of(node: Node, stop: Collection[Node]) -> Node:
    """Return the tensor that ``node`` is an elementwise function of, with numbers as constants.

    Args:
        node: a node.
        stop: the outputs of other activations, where the search ends.
    """
    while node.op in ELEMENTWISE | BROADCAST and node not in stop:
        sources = [source for source in node.inputs if source.op not in LEAVES]
        if len(sources) != 1 or not sources[0].floating or sources[0].shape != node.shape:
            break
        if any(not _is_number(source) for source in node.inputs if source.op in LEAVES):
            break
        node = sources[0]
    return node


def function_from(
    graph: Graph,
    model: nn.Module,
    root: Node,
    through: Node,
    points: Tensor,
) -> NumberFunction | None:
    """Return the function of ``root`` that goes through ``through``, as far as it is elementwise.

    Args:
        graph: the graph.
        model: holds the parameters.
        root: where it begins.
        through: a node that it contains.
        points: where to evaluate it.

    Returns:
        ``None`` if the function depends on more than its own element, or on the channel.
    """
    values: dict[Node, Any] = {root: points}
    later = {through}  # nodes that depend on ``through``
    end = through
    for node in graph.nodes[root.index + 1 :]:
        if _is_stored_number(node, values, model):
            continue
        if node.op not in ELEMENTWISE | BROADCAST or node.shape != root.shape:
            continue
        sources = [source for source in node.inputs if source.op not in LEAVES]
        if not any(source in values and source.shape == root.shape for source in sources):
            continue
        if any(source not in values for source in sources):
            continue
        leaves = [source for source in node.inputs if source.op in LEAVES]
        if any(not _is_number(leaf) for leaf in leaves):
            continue
        for leaf in leaves:
            values[leaf] = _number(leaf_value(leaf, model))
        values[node] = _call(node, values)
        if node in later or not later.isdisjoint(sources):
            later.add(node)
            if node.floating:
                end = node
    if through not in values:
        return None
    return NumberFunction(root, end, values[end])


def _is_stored_number(node: Node, values: dict[Node, Any], model: nn.Module) -> bool:
    """Compute a node that depends on single stored numbers alone, such as a trained slope."""
    if node.op in LEAVES or node.op == "output" or not node.inputs or not _has_one(node):
        return False
    for source in node.inputs:
        if source in values and _has_one(source):
            continue
        if source.op not in LEAVES or not _is_number(source):
            return False
        values[source] = _number(leaf_value(source, model))
    if node.op in RESHAPES | MOVES:
        values[node] = values[node.inputs[0]]
    elif node.op in ELEMENTWISE | BROADCAST:
        values[node] = _call(node, values)
    return node in values


def _has_one(node: Node) -> bool:
    return node.shape is not None and all(length == 1 for length in node.shape)


def _is_number(leaf: Node) -> bool:
    if leaf.op == "constant" and not isinstance(leaf.value, Tensor):
        return True
    size = 1
    for length in leaf.shape or ():
        size *= length
    return leaf.op != "input" and size == 1


def _number(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    number = value.detach().reshape(())
    return number.double() if number.is_floating_point() else number


def _call(node: Node, values: dict[Node, Any]) -> Tensor:
    arguments = filled(dict(node.arguments), values)
    # Casts would round the values, which are wide on purpose.
    if node.op in ("to", "_to_copy", "type_as"):
        return values[node.inputs[0]]
    if node.inplace:
        first = next(iter(arguments))
        arguments[first] = arguments[first].clone()
    with torch.no_grad():
        return node.overload(**arguments)
