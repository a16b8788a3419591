"""The source text of an imported method: find it, check it, and search it by position.

Note [The text is the code]. Text is used only if it compiles to the code object that Python is
running: equal instructions, constants, names and positions. So a file that was edited after the
import is refused, and so is text that only looks like the method.
"""

import ast
import hashlib
import itertools
import linecache
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import CodeType, FunctionType

from gatewise.surgery.calls.call_site import Position
from gatewise.surgery.calls.compiling import compile_statement
from gatewise.surgery.calls.methods import code_tree, same_code

Def = ast.FunctionDef | ast.AsyncFunctionDef
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
CALLS = (ast.Call, ast.BinOp, ast.AugAssign)  # what a unit can replace
_CHILDREN = {"children", "named_children", "modules", "named_modules", "_modules"}


class Unreadable(Exception):  # noqa: N818  it is never shown: its text is a key of REFUSALS
    """A method's source cannot be used. The text is a key of ``REFUSALS``."""


@dataclass(frozen=True)
class Text:
    """A source file as Python read it, with its SHA-256."""

    file: str
    digest: str
    tree: ast.Module

    def statement(self, line: int) -> ast.stmt:
        """Return the top-level statement around ``line``."""
        for statement in self.tree.body:
            if first_line(statement) <= line <= (statement.end_lineno or 0):
                return statement
        raise Unreadable("source_changed")

    @cached_property
    def imports(self) -> list[ast.stmt]:
        """The top-level statements that import, which change how the whole file is compiled."""
        imports = []
        for statement in self.tree.body:
            if isinstance(statement, Def | ast.ClassDef):
                continue
            if any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(statement)):
                imports.append(statement)
        return imports


@dataclass(frozen=True)
class Source:
    """The text of one method, which was checked to be the code that runs."""

    text: Text
    node: Def | ast.Lambda
    statement: ast.stmt

    def ancestors(self, position: Position) -> list[ast.AST]:
        """Return the call at ``position`` and the nodes around it, up to the method.

        The list is empty if there is no call at this position.
        """
        return next(_paths_to(self.node, position), [])


def source_of(function: FunctionType) -> Source:
    """Return the source of ``function``.

    Raises:
        Unreadable: There is no source text, or it is not the code that runs.
    """
    return source_of_code(function.__code__, function.__globals__)


def source_of_code(code: CodeType, names: dict[str, object]) -> Source:
    """Return the source of ``code``, whose global variables are ``names``.

    Raises:
        Unreadable: There is no source text, or it is not the code that runs.
    """
    text = text_of(code.co_filename, names)
    statement = text.statement(code.co_firstlineno)
    source = Source(text, _definition(statement, code), statement)
    compiled = compile_statement(statement, text.imports, code.co_filename)
    # See Note [The text is the code].
    if not any(same_code(code, candidate) for candidate in code_tree(compiled)):
        raise Unreadable("source_changed")
    return source


def text_of(file: str, names: dict[str, object]) -> Text:
    """Return the text that Python has for ``file``: on disk, in an archive or in a notebook."""
    linecache.checkcache(file)  # drops cached lines of a file that has changed since
    lines = linecache.getlines(file, names)
    if not lines:
        raise Unreadable("no_source")
    return _parsed(file, "".join(lines))


@lru_cache(maxsize=64)
def _parsed(file: str, text: str) -> Text:
    """Parse a source file. The result is cached."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        raise Unreadable("source_changed") from None
    return Text(file, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), tree)


def first_line(node: ast.AST) -> int:
    """Return the line on which a statement starts, decorators included."""
    nodes = [node, *getattr(node, "decorator_list", [])]
    return min(part.lineno for part in nodes)


def definition_of(code: CodeType) -> Def | ast.Lambda:
    """Return the definition of ``code`` in its file, not checked to be the code that runs.

    Raises:
        Unreadable: There is no source text, or none at its line.
    """
    return _definition(text_of(code.co_filename, {}).statement(code.co_firstlineno), code)


def _definition(statement: ast.stmt, code: CodeType) -> Def | ast.Lambda:
    """Return the definition of ``code`` inside a top-level statement."""
    for node in ast.walk(statement):
        if not isinstance(node, Def | ast.Lambda):
            continue
        name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
        if name == code.co_name and first_line(node) == code.co_firstlineno:
            return node
    raise Unreadable("source_changed")


def _paths_to(node: ast.AST, position: Position) -> Iterator[list[ast.AST]]:
    """Yield the nodes from each call or operator at ``position`` up to ``node``."""
    if isinstance(node, CALLS) and is_at(node, position):
        yield [node]
    for child in ast.iter_child_nodes(node):
        yield from ([*path, node] for path in _paths_to(child, position))


def is_at(call: ast.Call | ast.BinOp | ast.AugAssign, position: Position) -> bool:
    """Whether Python records ``position`` for the instruction of ``call``.

    In a chain of method calls over several lines, the position of a call begins at the name of the
    method.
    """
    line, last_line, column, last_column = position
    if (call.end_lineno, call.end_col_offset) != (last_line, last_column):
        return False
    if (call.lineno, call.col_offset) == (line, column):
        return True
    callee = getattr(call, "func", None)
    if not isinstance(callee, ast.Attribute):
        return False
    end_of_name = column + len(callee.attr.encode())
    return (callee.end_lineno, callee.end_col_offset) == (line, end_of_name)


def scope(path: list[ast.AST]) -> ast.AST:
    """Return the innermost function or lambda around the call that ``path`` starts with."""
    return next(node for node in path[1:] if isinstance(node, Def | ast.Lambda))


def own_nodes(home: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without those of functions inside it."""
    for child in ast.iter_child_nodes(home):
        yield child
        if not isinstance(child, Def | ast.Lambda | ast.ClassDef):
            yield from own_nodes(child)


def keeps_name(path: list[ast.AST], own_name: str) -> bool:
    """Whether ``own_name`` always is the method's module at the call that ``path`` starts with."""
    taken = _assigned(ast.walk(path[-1]))
    for node in path[1:-1]:
        if isinstance(node, Def | ast.Lambda):
            taken |= _argument_names(node)
    return own_name not in taken


def goes_through_children(method: ast.AST, own_name: str) -> bool:
    """Whether the method loops over all submodules of its module."""
    for node in ast.walk(method):
        if isinstance(node, ast.Attribute) and node.attr in _CHILDREN:
            if isinstance(node.value, ast.Name) and node.value.id == own_name:
                return True
    return False


def can_rebind(path: list[ast.AST], name: str) -> bool:
    """Whether the function around the call can assign a new value to ``name``.

    ``name`` must be local to the function, and no comprehension may be around the call.
    """
    home = scope(path)
    local = _argument_names(home) | _assigned(own_nodes(home))
    around = path[: path.index(home)]
    return name in local and not any(isinstance(node, _COMPREHENSIONS) for node in around)


def _argument_names(function: ast.AST) -> set[str]:
    """Return the names of a function's arguments."""
    nodes = ast.walk(function.args)  # type: ignore[attr-defined]
    return {node.arg for node in nodes if isinstance(node, ast.arg)}


def _assigned(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the variables that ``nodes`` assign or delete."""
    return {
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }


@dataclass(frozen=True)
class Loop:
    """Whether a call is inside a loop of its function, and whether every iteration executes it."""

    inside: bool
    every_iteration: bool


def loop_around(path: list[ast.AST]) -> Loop:
    """Return which loops are between the call that ``path`` starts with and its function."""
    inside = skipped = may_skip = False
    home = scope(path)
    for child, parent in itertools.pairwise(path):
        may_skip |= _is_branch(child, parent)
        if _repeats(child, parent, path):
            skipped |= may_skip or _contains(parent, ast.Continue)
            if inside:
                inner = path[: path.index(parent)]
                skipped |= _contains(parent, ast.Break)
                skipped |= any(isinstance(node, ast.While) for node in inner)
            inside = True
        if parent is home:
            break
    return Loop(inside, inside and not skipped and not isinstance(home, ast.Lambda))


def _contains(loop: ast.AST, kind: type[ast.AST]) -> bool:
    """Whether ``loop`` contains a node of a kind, for example ``break``."""
    return any(isinstance(node, kind) for node in ast.walk(loop))


def _repeats(child: ast.AST, parent: ast.AST, path: list[ast.AST]) -> bool:
    """Whether ``parent`` is a loop that executes ``child`` repeatedly."""
    if isinstance(parent, _LOOPS):
        return child in parent.body or child is getattr(parent, "test", None)
    if not isinstance(parent, _COMPREHENSIONS):
        return False
    first = parent.generators[0]
    return not (child is first and path[path.index(child) - 1] is first.iter)


def _is_branch(child: ast.AST, parent: ast.AST) -> bool:
    """Whether ``parent`` may skip ``child``."""
    if isinstance(parent, ast.If | ast.IfExp):
        return child is not parent.test
    if isinstance(parent, ast.BoolOp):
        return child is not parent.values[0]
    if isinstance(parent, _COMPREHENSIONS):
        return any(generator.ifs for generator in parent.generators)
    if isinstance(parent, ast.comprehension):
        # Python allows no assignment, and so no counter, in what a comprehension iterates over.
        return child is parent.iter
    return isinstance(parent, ast.match_case | ast.ExceptHandler)
