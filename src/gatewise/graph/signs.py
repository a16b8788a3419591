"""Tell which tensors are never negative, for any input of the model."""

from typing import Any

from gatewise.graph.ops import Sign, get_operator
from gatewise.graph.trace import Node

# Arguments that hold a number which the operator adds, multiplies by or fills in.
NUMBER_ARGUMENTS = ("self", "other", "alpha", "value")


def is_never_negative(value: Any) -> bool:
    """Return whether ``value`` is zero or more for any input, as far as the operators tell.

    Args:
        value: a number, or a node, which stands for the tensor it makes.
    """
    if not isinstance(value, Node):
        return isinstance(value, int | float) and value >= 0
    seen = {value}
    waiting = [value]
    while waiting:
        node = waiting.pop()
        sign = get_operator(node.op).sign
        if sign is Sign.NEVER_NEGATIVE:
            continue
        # Integer tensors are indices and have no influence on the sign.
        sources = [source for source in node.inputs if source.floating or source.shape is None]
        if sign is not Sign.KEPT or not sources or _has_negative_number(node):
            return False
        for source in sources:
            if source not in seen:
                seen.add(source)
                waiting.append(source)
    return True


def _has_negative_number(node: Node) -> bool:
    for name in NUMBER_ARGUMENTS:
        number = node.arguments.get(name)
        if isinstance(number, int | float) and number < 0:
            return True
    return False
