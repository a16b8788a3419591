"""Nonlinearities written as arithmetic, which no table of activations knows.

Said, so that they are not overlooked.
"""

from collections.abc import Iterator

from gatewise.graph.ops import GATES, PRODUCTS
from gatewise.graph.trace import Graph, Node


def unrecognised(graph: Graph) -> list[str]:
    """One note for each place that computes an activation by other means."""
    return [
        f"unrecognised nonlinearity, not a site: {words} in {where}"
        for words, where in _places(graph)
    ]


def _places(graph: Graph) -> Iterator[tuple[str, str]]:
    for node in graph:
        where = node.scope[0] or "the model"
        if (
            node.op in ("clamp", "clamp_min")
            and node.arguments.get("min") == 0
            and node.arguments.get("max") is None
        ):
            yield "clamp(min=0), a ReLU", where
        elif node.op == "maximum" and any(_is_zero(each) for each in node.inputs):
            yield "maximum(x, 0), a ReLU", where
        elif node.op in PRODUCTS and _is_swish(node):
            yield "x * sigmoid(x), a SiLU", where


def _is_zero(node: Node) -> bool:
    return node.op in ("zeros", "zeros_like", "new_zeros") or (
        node.op == "constant" and node.shape == ()
    )


def _is_swish(node: Node) -> bool:
    gates = [each for each in node.inputs if each.op in GATES]
    return any(gate.inputs[0] in node.inputs for gate in gates)
