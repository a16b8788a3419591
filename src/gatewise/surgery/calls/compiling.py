"""Compile an edited syntax tree to a function. Only this module compiles text of the user's.

Why this is safe: the compiled text is the text of a class that Python has already imported and run,
and it was checked to compile to exactly the code that is running. The edits only replace calls by
calls of ``self.gw.NAME``, with names that are generated here. Nothing from a configuration, a plan
or a checkpoint becomes program text: a recipe holds positions and digests, which select calls in
text that is already trusted, or do not fit and are refused. Nothing is executed either: the code
object of one method is taken out of the compiled statement. The statement itself, with its
decorators, default values and class body, never runs.
"""

import ast
from types import CellType, CodeType, FunctionType


def compile_statement(statement: ast.stmt, imports: list[ast.stmt], file: str) -> CodeType:
    """Return the code of one top-level statement, which contains the methods' code objects.

    Args:
        statement: The statement, for example a class definition.
        imports: The imports of its file. ``from __future__`` imports change how code is compiled.
        file: The file name to record in the code.
    """
    module = ast.Module(body=[*imports, statement], type_ignores=[])
    return compile(module, file, "exec", dont_inherit=True)


def function_like(
    function: FunctionType, code: CodeType, cells: dict[str, CellType] | None = None
) -> FunctionType:
    """Return a copy of ``function`` with other code.

    Args:
        function: The function to copy.
        code: The code of the copy.
        cells: Closure cells, by variable name, that replace those of ``function``.
    """
    closure = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    closure.update(cells or {})
    new = FunctionType(
        code,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(closure[name] for name in code.co_freevars),  # `super()` finds `__class__` here
    )
    new.__kwdefaults__ = function.__kwdefaults__ and dict(function.__kwdefaults__)
    new.__annotations__ = dict(function.__annotations__)
    new.__qualname__ = function.__qualname__
    new.__module__ = function.__module__
    new.__doc__ = function.__doc__
    new.__dict__.update(function.__dict__)
    return new
