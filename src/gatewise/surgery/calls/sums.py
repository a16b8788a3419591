"""Additions of two tensors.

Which calls of torch are one, and the ways they stand in source text.
"""

import ast
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from gatewise.surgery.calls.callee import UNKNOWN, value_of

SUM = "add"
_NAMES = {"add", "add_", "__add__", "__iadd__"}
_IN_PLACE = {"add_", "__iadd__"}
# Forms: how an addition is written.
OPERATOR, ASSIGNED, FUNCTION, METHOD = "sum", "sum assigned", "sum function", "sum method"


def is_sum(function: Any, args: tuple[Any, ...]) -> bool:
    """Whether ``function`` adds two tensors."""
    two = len(args) > 1 and isinstance(args[0], Tensor) and isinstance(args[1], Tensor)
    return two and getattr(function, "__name__", "") in _NAMES


def writes_into_first(function: Any) -> bool:
    """Whether the sum is written into the first operand."""
    return getattr(function, "__name__", "") in _IN_PLACE


def sum_form(node: ast.AST, frame: FrameType) -> str | None:
    """How ``node`` writes an addition; None if it is something else."""
    if isinstance(node, ast.BinOp):
        return OPERATOR if isinstance(node.op, ast.Add) else None
    if isinstance(node, ast.AugAssign):
        return (
            ASSIGNED if isinstance(node.op, ast.Add) and isinstance(node.target, ast.Name) else None
        )
    if (
        not isinstance(node, ast.Call)
        or node.keywords
        or any(isinstance(each, ast.Starred) for each in node.args)
    ):
        return None
    callee = value_of(node.func, frame)
    if callee is torch.add and len(node.args) == 2:
        return FUNCTION
    named = (
        isinstance(node.func, ast.Attribute) and node.func.attr in _NAMES and len(node.args) == 1
    )
    of_tensor = callee is UNKNOWN or isinstance(getattr(callee, "__self__", None), Tensor)
    return METHOD if named and of_tensor else None


def is_sum_form(form: str) -> bool:
    """Whether ``form`` is one of an addition."""
    return form.startswith(OPERATOR)


def operands_of(node: ast.AST) -> tuple[ast.expr, ast.expr]:
    """Both operands of an addition that :func:`sum_form` has recognised, to be read."""
    if isinstance(node, ast.BinOp):
        return node.left, node.right
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target), node.value
    if isinstance(node, ast.Call) and len(node.args) == 2:
        return node.args[0], node.args[1]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.value, node.args[0]
    raise TypeError(f"{type(node).__name__} is no addition")
