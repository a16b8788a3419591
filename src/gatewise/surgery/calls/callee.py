"""What a call in the source really calls.

Looked up in the frame that makes it, without running anything of it.
"""

import ast
import builtins
import functools
import inspect
from types import FrameType
from typing import Any

from torch import Tensor, nn

from gatewise.surgery.calls.functions import activation

UNKNOWN = object()
AROUND = "around"  # a form that is never recorded: the call stays, and what it returns is the input


def value_of(node: ast.AST, frame: FrameType) -> Any:
    """The value of a name, attribute or item as ``frame`` sees it, or ``UNKNOWN``."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return _look_up(node.id, frame)
    if isinstance(node, ast.Attribute):
        return _attribute(value_of(node.value, frame), node.attr)
    if isinstance(node, ast.Subscript):
        return _item(value_of(node.value, frame), value_of(node.slice, frame))
    if isinstance(node, ast.Call) and value_of(node.func, frame) is getattr and len(node.args) == 2:
        return _attribute(value_of(node.args[0], frame), value_of(node.args[1], frame))
    return UNKNOWN


def _look_up(name: str, frame: FrameType) -> Any:
    for names in (frame.f_locals, frame.f_globals, vars(builtins)):
        if name in names:
            return names[name]
    return UNKNOWN


def _attribute(value: Any, name: Any) -> Any:
    if value is UNKNOWN or not isinstance(name, str):
        return UNKNOWN
    if name.startswith("__") and not name.endswith(
        "__"
    ):  # private: python has put the name of the class before it
        mangled = (f"_{kind.__name__.lstrip('_')}{name}" for kind in type(value).__mro__)
        name = next((each for each in mangled if hasattr(value, each)), name)
    return getattr(value, name, UNKNOWN)


def _item(value: Any, key: Any) -> Any:
    if key is UNKNOWN or not isinstance(
        value, list | tuple | dict | nn.ModuleList | nn.ModuleDict | nn.Sequential
    ):
        return UNKNOWN
    try:
        return value[key]
    except (LookupError, TypeError):
        return UNKNOWN


def form_of(call: ast.Call, frame: FrameType, op: str, module: nn.Module | None) -> str | None:
    """Where the input stands in ``call``: ``"argument"``, ``"keyword NAME"`` or ``"self"``.

    None if it is another call.

    ``map(torch.relu, xs)`` runs an activation too, but what stands in the source is a call of
    ``map``.
    """
    callee = value_of(call.func, frame)
    if module is not None:
        return _argument_form(call, _first_parameter(module)) if callee is module else None
    while isinstance(callee, functools.partial) and not callee.args:
        callee = callee.func
    known = activation(callee)
    if known is None:
        return "self" if _is_tensor_method(call, callee, op) else None
    return _argument_form(call, "input") if known.op == op else None


def _is_tensor_method(call: ast.Call, callee: Any, op: str) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in (op, f"{op}_"):
        return False
    if (
        callee is UNKNOWN
    ):  # a method of what another expression gives; with arguments it might be a function there
        return not call.args and not call.keywords
    return isinstance(getattr(callee, "__self__", None), Tensor)


def _first_parameter(module: nn.Module) -> str:
    return next(iter(inspect.signature(module.forward).parameters), "input")


def _argument_form(call: ast.Call, name: str) -> str | None:
    if call.args:
        return None if isinstance(call.args[0], ast.Starred) else "argument"
    return f"keyword {name}" if any(keyword.arg == name for keyword in call.keywords) else None


def attribute_of(call: ast.Call, own_name: str) -> str | None:
    """``"act"`` for ``self.act(...)``."""
    f = call.func
    return (
        f.attr
        if isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name) and f.value.id == own_name
        else None
    )


def input_of(call: ast.Call, form: str) -> ast.expr:
    """The expression that is the activation's input."""
    if form == "self" and isinstance(call.func, ast.Attribute):
        return call.func.value
    if form == AROUND:
        return call
    if form == "argument":
        return call.args[0]
    return next(
        keyword.value for keyword in call.keywords if keyword.arg == form.removeprefix("keyword ")
    )
