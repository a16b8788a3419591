"""Functions that do nothing but return an activation of their argument.

Such as ``lambda x: F.relu(x)``, also as a closure, a static method or a class method. They have no
module to keep a unit in, so the unit takes the place of their own call in a method.
"""

import ast
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from gatewise.surgery.calls.callee import form_of, input_of, value_of
from gatewise.surgery.calls.frames import caller, position_of
from gatewise.surgery.calls.source_text import Def, Unreadable, source_of_code


def outermost_wrapper(
    frame: FrameType, op: str, is_method: Callable[[FrameType], bool]
) -> FrameType | None:
    """Return the frame of the wrapper that a method calls, if an activation is reached so.

    Args:
        frame: The frame that calls the activation.
        op: The activation.
        is_method: Whether a frame runs a method of the model.
    """
    wrapper = None
    while not is_method(frame):
        node, call = _returned_call(frame)
        source = None
        if call is not None and wrapper is None:
            form = form_of(call, frame, op, None)
            source = input_of(call, form) if form else None
        elif call is not None and calls_function(call, frame, wrapper.f_code):
            source = call.args[0]
        if not isinstance(source, ast.Name) or not _is_last_required(source, call, node):
            return None
        wrapper, frame = frame, caller(frame.f_back)
    return wrapper


def calls_function(call: ast.AST, frame: FrameType, code: CodeType) -> bool:
    """Whether ``call``, which ``frame`` makes, calls ``code`` with one argument by its place."""
    if not isinstance(call, ast.Call) or len(call.args) != 1 or call.keywords:
        return False
    callee: Any = value_of(call.func, frame)
    if not hasattr(callee, "__code__") and not hasattr(callee, "__func__"):
        callee = type(callee).__call__ if callable(callee) else None
    function = getattr(callee, "__func__", callee)
    is_one = not isinstance(call.args[0], ast.Starred)
    return is_one and getattr(function, "__code__", None) is code


def _returned_call(frame: FrameType) -> tuple[Def | ast.Lambda, ast.Call] | tuple[None, None]:
    """Return the function that ``frame`` runs and its call, if it does nothing but return that."""
    position = position_of(frame)
    try:
        source = source_of_code(frame.f_code, frame.f_globals)
    except Unreadable:
        return None, None
    node = source.node
    path = source.ancestors(position) if position else []
    result: ast.AST | None = node.body if isinstance(node, ast.Lambda) else None
    if isinstance(node, ast.FunctionDef):
        decorators = {getattr(each, "id", "") for each in node.decorator_list}
        has_text = ast.get_docstring(node, clean=False) is not None
        last = node.body[-1]
        is_plain = decorators <= {"staticmethod", "classmethod"} and len(node.body) == 1 + has_text
        result = last.value if is_plain and isinstance(last, ast.Return) else None
    if not path or path[0] is not result or not isinstance(path[0], ast.Call):
        return None, None
    return node, path[0]


def _is_last_required(source: ast.Name, call: ast.AST, node: Def | ast.Lambda) -> bool:
    """Whether ``source`` is the last argument without a default, and is read once.

    An argument before it is the object or the class of a method.
    """
    arguments = node.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    required = names[: len(names) - len(arguments.defaults)]
    others = arguments.vararg or arguments.kwarg or arguments.kwonlyargs
    if others or len(required) not in (1, 2) or source.id != required[-1]:
        return False
    read = [each.id for each in ast.walk(call) if isinstance(each, ast.Name)]
    return read.count(source.id) == 1
