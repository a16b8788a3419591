"""Which tensors are never negative, whatever a model is given."""

from typing import Any

from gatewise.graph.ops import Sign, get_operator
from gatewise.graph.trace import Node

_NUMBERS = ("self", "other", "alpha", "value")


def is_never_negative(value: Any) -> bool:
    """Whether ``value``, a number or what a node makes, is always zero or more, as far as its operators tell."""
    if not isinstance(value, Node):
        return isinstance(value, int | float) and value >= 0
    seen, waiting = {value}, [value]
    while waiting:
        node = waiting.pop()
        sign = get_operator(node.op).sign
        if sign is Sign.NEVER_NEGATIVE:
            continue
        given = [
            each for each in node.inputs if each.floating or each.shape is None
        ]  # indices play no part
        if sign is not Sign.KEPT or not given or _has_negative_number(node):
            return False
        fresh = [each for each in given if each not in seen]
        seen.update(fresh)
        waiting.extend(fresh)
    return True


def _has_negative_number(node: Node) -> bool:
    numbers = (node.arguments.get(name) for name in _NUMBERS)
    return any(isinstance(each, int | float) and each < 0 for each in numbers)
