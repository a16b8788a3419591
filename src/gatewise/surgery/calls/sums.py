"""Additions of two tensors: which calls of torch are one, and how they are written."""

import ast
from types import FrameType
from typing import Any

from torch import Tensor

from gatewise.surgery.calls.reads import (
    ASSIGNED,
    FUNCTION,
    METHOD,
    OPERATOR,
    operand_count,
    reader_form,
)

SUM = "add"
_NAMES = {"add", "add_", "__add__", "__iadd__"}
_IN_PLACE = {"add_", "__iadd__"}
# The forms of an addition in source text, by that of a reader of its operands.
_FORMS = {
    OPERATOR: "sum",
    ASSIGNED: "sum assigned",
    FUNCTION: "sum function",
    METHOD: "sum method",
}


def is_sum(function: Any, args: tuple[Any, ...]) -> bool:
    """Whether ``function`` adds two tensors."""
    tensors = len(args) > 1 and isinstance(args[0], Tensor) and isinstance(args[1], Tensor)
    return tensors and getattr(function, "__name__", "") in _NAMES


def writes_into_first(function: Any) -> bool:
    """Whether the sum is written into the first operand."""
    return getattr(function, "__name__", "") in _IN_PLACE


def sum_form(node: ast.AST, frame: FrameType) -> str | None:
    """Return how ``node`` writes an addition, or ``None`` if it is something else."""
    form = reader_form(node, frame, SUM)
    if isinstance(node, ast.BinOp | ast.AugAssign) and not isinstance(node.op, ast.Add):
        return None
    if isinstance(node, ast.Call) and (node.keywords or operand_count(node, form or "") != 2):
        return None
    return _FORMS.get(form or "")


def is_sum_form(form: str) -> bool:
    """Whether ``form`` is that of an addition."""
    return form.startswith("sum")


def operands_of(node: ast.AST) -> tuple[ast.expr, ast.expr]:
    """Return both operands of an addition that :func:`sum_form` has recognised."""
    if isinstance(node, ast.BinOp):
        return node.left, node.right
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        first = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        return first, node.value
    if isinstance(node, ast.Call) and len(node.args) == 2:
        return node.args[0], node.args[1]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.value, node.args[0]
    raise TypeError(f"{type(node).__name__} is no addition")
