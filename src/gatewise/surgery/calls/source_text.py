"""The source text of an imported method.

Found, checked against the code that runs, and searched by position.

Note [The text is the code]. Text is only used if it compiles to the very code object that python is
running: equal instructions, constants, names and positions. A file that was edited after it was
imported is thereby refused, and so is text that only looks like the method.
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

CALLS = (ast.Call, ast.BinOp, ast.AugAssign)  # what a unit can take the place of
_CHILDREN = {"children", "named_children", "modules", "named_modules", "_modules"}


class Unreadable(Exception):  # noqa: N818  it is not shown: its text is a key of REFUSALS
    """A method's source cannot be used."""


@dataclass(frozen=True)
class Text:
    """A source file as python read it."""

    file: str
    digest: str
    tree: ast.Module

    def statement(self, line: int) -> ast.stmt:
        """The top-level statement around ``line``."""
        for statement in self.tree.body:
            if first_line(statement) <= line <= (statement.end_lineno or 0):
                return statement
        raise Unreadable("source_changed")

    @cached_property
    def imports(self) -> list[ast.stmt]:
        """The statements that import for the whole file.

        They change how names are compiled everywhere in it.
        """
        plain = [s for s in self.tree.body if not isinstance(s, Def | ast.ClassDef)]
        return [
            s
            for s in plain
            if any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(s))
        ]


@dataclass(frozen=True)
class Source:
    """The text of one method, known to be the code that runs."""

    text: Text
    node: Def | ast.Lambda
    statement: ast.stmt

    def ancestors(self, position: Position) -> list[ast.AST]:
        """The call at ``position`` and what it stands in, the method last.

        Empty if there is no call there.
        """
        return next(_paths_to(self.node, position), [])


def source_of(function: FunctionType) -> Source:
    """The source of ``function``, or :class:`Unreadable`."""
    code = function.__code__
    text = text_of(code.co_filename, function.__globals__)
    statement = text.statement(code.co_firstlineno)
    source = Source(text, _definition(statement, code), statement)
    compiled = compile_statement(statement, text.imports, code.co_filename)
    if not any(
        same_code(code, each) for each in code_tree(compiled)
    ):  # Note [The text is the code]
        raise Unreadable("source_changed")
    return source


def text_of(file: str, names: dict[str, object]) -> Text:
    """The text that python has for ``file``.

    From disc, from an archive, or from a notebook's cell.
    """
    linecache.checkcache(file)
    lines = linecache.getlines(file, names)
    if not lines:
        raise Unreadable("no_source")
    return _parsed(file, "".join(lines))


@lru_cache(maxsize=64)
def _parsed(file: str, text: str) -> Text:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        raise Unreadable("source_changed") from None
    return Text(file, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), tree)


def first_line(node: ast.AST) -> int:
    """The line on which a statement starts, its decorators included."""
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])  # type: ignore[attr-defined]


def _definition(statement: ast.stmt, code: CodeType) -> Def | ast.Lambda:
    for node in ast.walk(statement):
        if (
            isinstance(node, Def)
            and node.name == code.co_name
            and first_line(node) == code.co_firstlineno
        ):
            return node
        if (
            isinstance(node, ast.Lambda)
            and code.co_name == "<lambda>"
            and node.lineno == code.co_firstlineno
        ):
            return node
    raise Unreadable("source_changed")


def _paths_to(node: ast.AST, position: Position) -> Iterator[list[ast.AST]]:
    """The ways down from ``node`` to a call or an operator at ``position``, each written from there up."""
    if isinstance(node, CALLS) and stands_at(node, position):
        yield [node]
    for child in ast.iter_child_nodes(node):
        yield from ([*path, node] for path in _paths_to(child, position))


def stands_at(call: ast.Call | ast.BinOp | ast.AugAssign, position: Position) -> bool:
    """Whether the instruction of ``call`` has ``position``.

    Python lets the call of a method in a chain over several lines begin at the method's name.
    """
    line, last_line, column, last_column = position
    if (call.end_lineno, call.end_col_offset) != (last_line, last_column):
        return False
    if (call.lineno, call.col_offset) == (line, column):
        return True
    f = getattr(call, "func", None)
    return isinstance(f, ast.Attribute) and (f.end_lineno, f.end_col_offset) == (
        line,
        column + len(f.attr.encode()),
    )


def scope(path: list[ast.AST]) -> ast.AST:
    """The innermost function or lambda around the call that ``path`` starts with."""
    return next(node for node in path[1:] if isinstance(node, Def | ast.Lambda))


def own_nodes(home: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without those of the functions inside it."""
    for child in ast.iter_child_nodes(home):
        yield child
        if not isinstance(child, Def | ast.Lambda | ast.ClassDef):
            yield from own_nodes(child)


def keeps_name(path: list[ast.AST], own_name: str) -> bool:
    """Whether ``own_name`` is the method's module wherever the call that ``path`` starts with may stand."""
    method, inner = path[-1], path[1:-1]
    inner_arguments = [node.args for node in inner if isinstance(node, Def | ast.Lambda)]
    taken = {
        arg.arg for given in inner_arguments for arg in ast.walk(given) if isinstance(arg, ast.arg)
    }
    return own_name not in taken and own_name not in _assigned(ast.walk(method))


def goes_through_children(method: ast.AST, own_name: str) -> bool:
    """Whether the method treats the submodules of its module alike, whatever they are."""
    attributes = (
        node
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute) and node.attr in _CHILDREN
    )
    return any(
        isinstance(node.value, ast.Name) and node.value.id == own_name for node in attributes
    )


def can_rebind(path: list[ast.AST], name: str) -> bool:
    """Whether the function around the call can give ``name`` a new value.

    Its own name, of no comprehension around.
    """
    home = scope(path)
    arguments = {node.arg for node in ast.walk(home.args) if isinstance(node, ast.arg)}  # type: ignore[attr-defined]
    around = path[: path.index(home)]
    return name in arguments | _assigned(own_nodes(home)) and not any(
        isinstance(n, _COMPREHENSIONS) for n in around
    )


def _assigned(nodes: Iterable[ast.AST]) -> set[str]:
    return {
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }


@dataclass(frozen=True)
class Loop:
    """Whether a call is executed again and again by its function, and whether every round is sure to do so."""

    inside: bool
    every_round: bool


def loop_around(path: list[ast.AST]) -> Loop:
    """What loops stand between the call that ``path`` starts with and its innermost function."""
    inside = skipped = may_skip = False
    home = scope(path)
    for child, parent in itertools.pairwise(path):
        may_skip |= _is_branch(child, parent)
        if _repeats(child, parent, path):
            skipped |= (
                may_skip or _jumps(parent, ast.Continue) or (inside and _jumps(parent, ast.Break))
            )
            skipped |= inside and any(
                isinstance(node, ast.While) for node in path[: path.index(parent)]
            )
            inside = True
        if parent is home:
            break
    return Loop(inside, inside and not skipped and not isinstance(home, ast.Lambda))


def _jumps(loop: ast.AST, kind: type[ast.AST]) -> bool:
    return any(isinstance(node, kind) for node in ast.walk(loop))


def _repeats(child: ast.AST, parent: ast.AST, path: list[ast.AST]) -> bool:
    if isinstance(parent, _LOOPS):
        return child in parent.body or child is getattr(parent, "test", None)
    if not isinstance(parent, _COMPREHENSIONS):
        return False
    first = parent.generators[0]
    return not (child is first and path[path.index(child) - 1] is first.iter)


def _is_branch(child: ast.AST, parent: ast.AST) -> bool:
    if isinstance(parent, ast.If | ast.IfExp):
        return child is not parent.test
    if isinstance(parent, ast.BoolOp):
        return child is not parent.values[0]
    if isinstance(parent, _COMPREHENSIONS):
        return any(generator.ifs for generator in parent.generators)
    if isinstance(
        parent, ast.comprehension
    ):  # python allows no counting in what a comprehension goes through
        return child is parent.iter
    return isinstance(parent, ast.match_case | ast.ExceptHandler)
