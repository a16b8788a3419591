"""Calls of torch operators that read a tensor: how they are written, and where their operands are.

A form is one of the words below. If units are put around operands, their numbers follow:
``"reads operator 1"``.
"""

import ast
from collections.abc import Callable
from types import FrameType
from typing import Any, cast

from torch import Tensor

from gatewise.surgery.calls.call_site import CallSite
from gatewise.surgery.calls.callee import UNKNOWN, value_of
from gatewise.surgery.calls.source_text import CALLS, Unreadable, is_at

READS = "reads "
OPERATOR = READS + "operator"
ASSIGNED = READS + "assigned"
FUNCTION = READS + "function"
METHOD = READS + "method"
WHOLE = "whole"
_PLAIN = {
    "truediv": "div",
    "iadd": "add",
    "isub": "sub",
    "imul": "mul",
    "itruediv": "div",
    "imatmul": "matmul",
}

Reader = ast.Call | ast.BinOp | ast.AugAssign


def plain_name(function: Any) -> str:
    """Return the operator's name: ``add`` for ``torch.add``, ``Tensor.add_`` and ``+=``."""
    name = getattr(function, "__name__", "").strip("_")
    return _PLAIN.get(name, name)


def reader_form(node: ast.AST, frame: FrameType, op: str) -> str | None:
    """Return how ``node`` writes a call of the operator ``op``.

    Returns:
        One of the forms of this module, or ``None`` if ``node`` is another call or its operands
        cannot be identified.
    """
    if isinstance(node, ast.BinOp):
        # If a number comes first, torch gets the operands in reverse order.
        return None if isinstance(node.left, ast.Constant) else OPERATOR
    if isinstance(node, ast.AugAssign):
        return ASSIGNED if isinstance(node.target, ast.Name) else None
    if not isinstance(node, ast.Call) or any(isinstance(arg, ast.Starred) for arg in node.args):
        return None
    callee = value_of(node.func, frame)
    if callee is UNKNOWN or isinstance(getattr(callee, "__self__", None), Tensor):
        name = node.func.attr.strip("_") if isinstance(node.func, ast.Attribute) else ""
        return METHOD if name == op else None
    return FUNCTION if plain_name(callee) == op else None


def with_operands(form: str, numbers: tuple[int, ...]) -> str:
    """Return ``form`` with the numbers of the operands that units go around."""
    return " ".join((form, *map(str, numbers)))


def is_reads_form(form: str) -> bool:
    """Whether ``form`` is that of a call that stays, with a unit around an operand."""
    return form.startswith(READS)


def whole_form(call: CallSite, operand: int) -> str:
    """Return the form of a call that a unit takes the place of, with all that is in its text.

    Args:
        call: the call in that text that reads the activation's input.
        operand: which of its operands the input is. That of a method is number -1 in the form.
    """
    return " ".join(map(str, (WHOLE, *call.position, operand - (call.form == METHOD))))


def is_whole_form(form: str) -> bool:
    """Whether ``form`` is one of :func:`whole_form`."""
    return form.startswith(WHOLE)


def input_of_whole(node: Reader, form: str) -> ast.expr:
    """Return the expression that is the activation's input, by the form of :func:`whole_form`.

    Raises:
        Unreadable: the call that reads it is not in the text of ``node``.
    """
    *position, operand = map(int, form.split(" ")[1:])
    line, last_line, column, last_column = position
    for inner in ast.walk(node):
        if isinstance(inner, CALLS) and is_at(inner, (line, last_line, column, last_column)):
            if isinstance(inner, ast.BinOp):
                return (inner.left, inner.right)[operand]
            if isinstance(inner, ast.Call) and operand < 0:
                return cast(ast.Attribute, inner.func).value
            if isinstance(inner, ast.Call) and operand < len(inner.args):
                return inner.args[operand]
    raise Unreadable("source_changed")


def operand_count(node: ast.AST, form: str) -> int:
    """Return how many operands of ``node`` can be replaced: all that are not keyword arguments."""
    return len(node.args) + (form == METHOD) if isinstance(node, ast.Call) else 2


def around_operands(node: Reader, form: str, unit: Callable[[ast.expr], ast.expr]) -> ast.AST:
    """Return ``node`` with ``unit(operand)`` in place of each operand that ``form`` names.

    Args:
        node: The call or operator.
        form: Its form, from :func:`with_operands`.
        unit: Returns the call of the unit on an operand.
    """
    _, how, *numbers = form.split(" ")
    for number in map(int, numbers):
        if isinstance(node, ast.Call):
            _wrap_argument(node, number - (READS + how == METHOD), unit)
        elif isinstance(node, ast.BinOp) and number == 0:
            node.left = unit(node.left)
        elif isinstance(node, ast.BinOp):
            node.right = unit(node.right)
        elif number == 1:
            node.value = unit(node.value)
    if isinstance(node, ast.AugAssign) and "0" in numbers and isinstance(node.target, ast.Name):
        # `x += y` becomes `x = unit(x) + y`.
        first = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        total = ast.copy_location(ast.BinOp(unit(first), node.op, node.value), node)
        return ast.Assign([node.target], total)
    return node


def _wrap_argument(call: ast.Call, number: int, unit: Callable[[ast.expr], ast.expr]) -> None:
    """Put the unit around argument ``number``. Number -1 is the object of a method call."""
    if number < 0 and isinstance(call.func, ast.Attribute):
        call.func.value = unit(call.func.value)
    else:
        call.args[number] = unit(call.args[number])
