"""What a call of torch reads.

The ways such calls stand in source text, and where in them each operand is.

A form is one of the words below; with operands to put a unit around, their numbers follow:
``"reads operator 1"``.
"""

import ast
from types import FrameType
from typing import Any

from torch import Tensor

from gatewise.surgery.calls.callee import UNKNOWN, value_of

READS = "reads "
OPERATOR, ASSIGNED, FUNCTION, METHOD = (
    READS + how for how in ("operator", "assigned", "function", "method")
)
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
    """The operator that ``function`` is.

    ``add`` for ``torch.add``, ``Tensor.add_`` and ``+=`` alike.
    """
    name = getattr(function, "__name__", "").strip("_")
    return _PLAIN.get(name, name)


def reader_form(node: ast.AST, frame: FrameType, op: str) -> str | None:
    """How ``node`` writes the call of ``op``.

    None if it is something else, or its operands cannot be told.
    """
    if isinstance(
        node, ast.BinOp
    ):  # with a number first, torch is given the operands the other way round
        return None if isinstance(node.left, ast.Constant) else OPERATOR
    if isinstance(node, ast.AugAssign):
        return ASSIGNED if isinstance(node.target, ast.Name) else None
    if not isinstance(node, ast.Call) or any(isinstance(each, ast.Starred) for each in node.args):
        return None
    callee = value_of(node.func, frame)
    if callee is UNKNOWN or isinstance(getattr(callee, "__self__", None), Tensor):
        name = node.func.attr.rstrip("_") if isinstance(node.func, ast.Attribute) else ""
        return METHOD if name == op else None
    return FUNCTION if plain_name(callee) == op else None


def with_operands(form: str, numbers: tuple[int, ...]) -> str:
    """``form`` with the operands a unit goes around."""
    return " ".join((form, *map(str, numbers)))


def is_reads_form(form: str) -> bool:
    """Whether ``form`` is of a call that stays, with a unit around what it reads."""
    return form.startswith(READS)


def operand_count(node: ast.AST, form: str) -> int:
    """How many operands stand in ``node`` where they can be replaced.

    Those given by name do not.
    """
    return len(node.args) + (form == METHOD) if isinstance(node, ast.Call) else 2


def around_operands(node: Reader, form: str, unit: Any) -> ast.AST:
    """``node`` with ``unit(operand)`` in place of each operand that ``form`` names."""
    _, how, *numbers = form.split(" ")
    for number in map(int, numbers):
        if isinstance(node, ast.Call):
            node = _around_argument(node, number - (READS + how == METHOD), unit)
        elif number == 1:
            name = "right" if isinstance(node, ast.BinOp) else "value"
            setattr(node, name, unit(getattr(node, name)))
        elif isinstance(node, ast.BinOp):
            node.left = unit(node.left)
    if isinstance(node, ast.AugAssign) and "0" in numbers and isinstance(node.target, ast.Name):
        first = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        return ast.Assign(
            [node.target], ast.copy_location(ast.BinOp(unit(first), node.op, node.value), node)
        )
    return node


def _around_argument(call: ast.Call, number: int, unit: Any) -> ast.Call:
    if number < 0 and isinstance(call.func, ast.Attribute):
        call.func.value = unit(call.func.value)
    else:
        call.args[number] = unit(call.args[number])
    return call
