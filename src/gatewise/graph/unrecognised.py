"""Note nonlinearities that are written as arithmetic and are therefore no sites."""

from gatewise.graph.ops import GATES, PRODUCTS
from gatewise.graph.trace import Graph, Node


def unrecognised(graph: Graph) -> list[str]:
    """Return one note for each place that computes an activation by arithmetic."""
    notes = []
    for node in graph:
        words = _activation_of(node)
        if words:
            where = node.scope[0] or "the model"
            notes.append(f"unrecognised nonlinearity, not a site: {words} in {where}")
    return notes


def _activation_of(node: Node) -> str:
    """Return the expression and the activation that it is, ``""`` if it is none."""
    if node.op in ("clamp", "clamp_min"):
        below_zero = node.arguments.get("min") == 0 and node.arguments.get("max") is None
        return "clamp(min=0), a ReLU" if below_zero else ""
    if node.op == "maximum":
        return "maximum(x, 0), a ReLU" if any(map(_is_zero, node.inputs)) else ""
    if node.op in PRODUCTS:
        for gate in node.inputs:
            if gate.op in GATES and gate.inputs[0] in node.inputs:
                return "x * sigmoid(x), a SiLU"
    return ""


def _is_zero(node: Node) -> bool:
    """Return whether a node is zero, or a constant number, which is almost always zero here."""
    if node.op in ("zeros", "zeros_like", "new_zeros"):
        return True
    return node.op == "constant" and node.shape == ()
