"""Find out what a call in the source calls, by looking it up in the frame that makes the call.

Nothing of the call is executed.

Note [Wrappers]. A function that does nothing but return an activation of its argument, such as
``lambda x: F.relu(x)``, a closure, a static method or a class method, has no module to keep a unit
in. So the unit takes the place of its own call in a method.
"""

import ast
import builtins
import functools
import inspect
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

from torch import Tensor, nn

from gatewise.surgery.calls.frames import caller, position_of
from gatewise.surgery.calls.functions import activation
from gatewise.surgery.calls.source_text import Def, Unreadable, source_of_code

UNKNOWN = object()
AROUND = "around"  # a form that is never recorded: the call stays, and its result is the input
_CONTAINERS = (list, tuple, dict, nn.ModuleList, nn.ModuleDict, nn.Sequential)


def value_of(node: ast.AST, frame: FrameType) -> Any:
    """Return the value of a name, attribute or item in ``frame``, or ``UNKNOWN``."""
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
    """Return a variable as Python finds it: local, global or built in."""
    for names in (frame.f_locals, frame.f_globals, vars(builtins)):
        if name in names:
            return names[name]
    return UNKNOWN


def _attribute(value: Any, name: Any) -> Any:
    """Return an attribute, or ``UNKNOWN``."""
    if value is UNKNOWN or not isinstance(name, str):
        return UNKNOWN
    if name.startswith("__") and not name.endswith("__"):
        # Python stores a private name with the name of its class in front.
        for home in type(value).__mro__:
            mangled = f"_{home.__name__.lstrip('_')}{name}"
            if hasattr(value, mangled):
                return getattr(value, mangled)
    return getattr(value, name, UNKNOWN)


def _item(value: Any, key: Any) -> Any:
    """Return an item of a plain container, or ``UNKNOWN``."""
    if key is UNKNOWN or not isinstance(value, _CONTAINERS):
        return UNKNOWN
    try:
        return value[key]
    except (LookupError, TypeError):
        return UNKNOWN


def form_of(
    call: ast.Call,
    frame: FrameType,
    op: str,
    module: nn.Module | None,
) -> str | None:
    """Return where the input of an activation is written in ``call``.

    ``map(torch.relu, xs)`` runs an activation too, but the call in the source is one of ``map``.

    Args:
        call: The call in the source.
        frame: The frame that makes it.
        op: The activation that ran.
        module: The activation module that ran, if it was one.

    Returns:
        ``"argument"``, ``"keyword NAME"`` or ``"self"``, or ``None`` if it is another call.
    """
    callee = value_of(call.func, frame)
    if module is not None:
        if callee is not module:
            return None
        first = next(iter(inspect.signature(module.forward).parameters), "input")
        return _argument_form(call, first)
    while isinstance(callee, functools.partial) and not callee.args:
        callee = callee.func
    known = activation(callee)
    if known is None:
        return "self" if _is_tensor_method(call, callee, op) else None
    return _argument_form(call, "input") if known.op == op else None


def _is_tensor_method(call: ast.Call, callee: Any, op: str) -> bool:
    """Whether the call is a method ``op`` or ``op_`` of a tensor."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in (op, f"{op}_"):
        return False
    if callee is UNKNOWN:
        # The object is the result of an expression. With arguments, it might be a module such as
        # torch, and the call one of its functions.
        return not call.args and not call.keywords
    return isinstance(getattr(callee, "__self__", None), Tensor)


def _argument_form(call: ast.Call, name: str) -> str | None:
    """Return how the argument ``name``, which is the first, is passed."""
    if call.args:
        # `relu(*args)` becomes `unit(*args)`.
        unknown = isinstance(call.args[0], ast.Starred) and len(call.args) > 1
        return None if unknown else "argument"
    return f"keyword {name}" if any(keyword.arg == name for keyword in call.keywords) else None


def is_chosen(call: ast.Call, frame: FrameType, function: FunctionType) -> bool:
    """Whether another input or argument may let ``call`` call another function.

    So it is if the function is the default of an argument, or is looked up by the value of a
    variable, as in ``table[x.shape[0]](x)``. Attributes of the module are settings.

    Args:
        call: The call in the source.
        frame: The frame that makes it.
        function: The method that the call is in.
    """
    if isinstance(call.func, ast.Name) and frame.f_code is function.__code__:
        argument = inspect.signature(function).parameters.get(call.func.id)
        return argument is not None and argument.default is frame.f_locals.get(argument.name)
    own_name = function.__code__.co_varnames[0]
    for key in _keys(call.func):
        names = {node.id for node in ast.walk(key) if isinstance(node, ast.Name)}
        if any(name in frame.f_locals for name in names - {own_name}):
            return True
    return False


def _keys(callee: ast.AST) -> Iterator[ast.expr]:
    """Yield the keys and names by which the expression ``callee`` looks something up."""
    for node in ast.walk(callee):
        if isinstance(node, ast.Subscript):
            yield node.slice
        elif isinstance(node, ast.Call):
            yield from node.args[1:]


def attribute_of(call: ast.Call, own_name: str) -> str | None:
    """Return ``"act"`` for ``self.act(...)``, where ``own_name`` is ``"self"``."""
    callee = call.func
    if isinstance(callee, ast.Attribute) and isinstance(callee.value, ast.Name):
        return callee.attr if callee.value.id == own_name else None
    return None


def input_of(call: ast.Call, form: str) -> ast.expr:
    """Return the expression that is the activation's input."""
    if form == "self" and isinstance(call.func, ast.Attribute):
        return call.func.value
    if form == AROUND:
        return call
    if form == "argument":
        return call.args[0]
    name = form.removeprefix("keyword ")
    return next(keyword.value for keyword in call.keywords if keyword.arg == name)


def outermost_wrapper(
    frame: FrameType, op: str, is_method: Callable[[FrameType], bool]
) -> FrameType | None:
    """Return the frame of the wrapper that a method calls. See Note [Wrappers].

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
