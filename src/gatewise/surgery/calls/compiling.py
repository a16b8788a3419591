"""From an edited syntax tree to a function. The one place in this library that compiles anything.

Why this is safe. What is compiled is the text of a class that python has already imported and run,
and only after that text was found to compile to the very code that is running; the edits put calls
of ``self.gw.NAME`` in place of calls, with names made here. Nothing from a configuration, a plan or
a checkpoint becomes text of a program: a recipe holds positions and digests, which select calls in
a text that is already trusted, or do not fit and are refused. Nothing is executed either: the code
object of the one method is taken out of the compiled statement, and the statement itself, with its
decorators, default values and class body, never runs.
"""

import ast
from types import CellType, CodeType, FunctionType


def compile_statement(statement: ast.stmt, imports: list[ast.stmt], file: str) -> CodeType:
    """The code of one top-level statement, in which the methods' code objects are nested."""
    module = ast.Module(body=[*imports, statement], type_ignores=[])
    return compile(module, file, "exec", dont_inherit=True)


def function_like(
    function: FunctionType, code: CodeType, cells: dict[str, CellType] | None = None
) -> FunctionType:
    """``function`` with other code, and with ``cells`` in place of those of its closure that they name."""
    own = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)) | (
        cells or {}
    )
    closure = tuple(
        own[name] for name in code.co_freevars
    )  # `super()` finds its class here, as `__class__`
    new = FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, closure
    )
    new.__kwdefaults__ = function.__kwdefaults__ and dict(function.__kwdefaults__)
    new.__annotations__ = dict(function.__annotations__)
    new.__qualname__, new.__module__, new.__doc__ = (
        function.__qualname__,
        function.__module__,
        function.__doc__,
    )
    new.__dict__.update(function.__dict__)
    return new
