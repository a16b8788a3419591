"""Edits of a method's syntax tree: a call of an activation becomes a call of a unit, and nothing else changes."""

import ast
import copy
from collections import Counter
from typing import Any, NamedTuple

from gatewise.surgery._record_callee import input_of
from gatewise.surgery._record_site import Position
from gatewise.surgery._record_source import Def, Source, Unreadable, can_rebind, first_line, scope, stands_at

HOLDER = "gw"  # the owner's submodule that holds its units


class Edit(NamedTuple):
    """One call to replace, as plain data. A recipe is a tuple of these."""

    slot: str  # the unit is `self.gw.SLOT`
    defined_in: str
    method: str
    digest: str  # of the source file
    position: Position
    form: str
    inplace: bool
    iterations: int | None  # how many units the slot has room for; None: it is one unit
    kept: tuple[int, ...] = ()  # iterations that keep the original call

    @classmethod
    def from_plain(cls, data: Any) -> "Edit":
        """The edit that ``tuple(edit)`` was, JSON's lists allowed."""
        slot, defined_in, method, digest, position, form, inplace, iterations, kept = data
        return cls(slot, defined_in, method, digest, tuple(position), form, inplace, iterations, tuple(kept))


def edited(source: Source, edits: list[Edit], own_name: str) -> ast.stmt:
    """The top-level statement around the method, with the method's calls replaced."""
    rewriter = _Rewriter(source.node, edits, own_name)
    statement = rewriter.visit(copy.deepcopy(source.statement))
    if rewriter.found != Counter(edit.slot for edit in edits):
        raise Unreadable("source_changed")
    return ast.fix_missing_locations(statement)


class _Rewriter(ast.NodeTransformer):
    def __init__(self, method: Def | ast.Lambda, edits: list[Edit], own_name: str) -> None:
        self.name, self.line = getattr(method, "name", None), first_line(method)
        self.edits, self.own_name = edits, own_name
        self.path: list[ast.AST] = []  # the node being visited first
        self.found: Counter[str] = Counter()
        self.counters: dict[ast.AST, list[str]] = {}

    def visit(self, node: ast.AST) -> Any:
        """Visit ``node`` with its ancestors at hand."""
        self.path.insert(0, node)
        try:
            return super().visit(node)
        finally:
            self.path.pop(0)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Start the function's counters at its top, after its docstring."""
        self.generic_visit(node)
        at = int(ast.get_docstring(node, clean=False) is not None)
        starts = [ast.copy_location(_assign(name), node.body[0]) for name in self.counters.get(node, ())]
        node.body[at:at] = starts
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Put the unit in place of the call if an edit names it."""
        edit = next((e for e in self.edits if stands_at(node, e.position)), None) if self._in_method() else None
        path = list(self.path)
        self.generic_visit(node)
        if edit is None:
            return node
        self.found[edit.slot] += 1
        return ast.copy_location(self._replacement(node, edit, path), node)

    def _in_method(self) -> bool:
        return any(getattr(n, "name", None) == self.name and first_line(n) == self.line for n in self.path if is_def(n))

    def _replacement(self, call: ast.Call, edit: Edit, path: list[ast.AST]) -> ast.expr:
        given = input_of(call, edit.form)
        new = self._unit_call(call, edit, given, scope(path))
        if edit.inplace and isinstance(given, ast.Name) and can_rebind(path, given.id):
            return ast.NamedExpr(ast.Name(given.id, ast.Store()), new)  # later readers of the name see the result
        return new

    def _unit_call(self, call: ast.Call, edit: Edit, given: ast.expr, home: ast.AST) -> ast.expr:
        unit = ast.Attribute(ast.Attribute(_load(self.own_name), HOLDER, ast.Load()), edit.slot, ast.Load())
        if edit.iterations is None:
            return ast.Call(unit, [given], [])
        counter = f"_gw_{edit.slot}"
        self.counters.setdefault(home, []).append(counter)
        step = ast.NamedExpr(ast.Name(counter, ast.Store()), ast.BinOp(_load(counter), ast.Add(), ast.Constant(1)))
        if not edit.kept:
            return ast.Call(unit, [step, given], [])
        kept = ast.Tuple([ast.Constant(each) for each in edit.kept], ast.Load())
        is_ours = ast.Compare(step, [ast.NotIn()], [kept])
        return ast.IfExp(is_ours, ast.Call(unit, [_load(counter), given], []), call)


def is_def(node: ast.AST) -> bool:
    """Whether ``node`` defines a function."""
    return isinstance(node, Def | ast.Lambda)


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _assign(name: str) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], ast.UnaryOp(ast.USub(), ast.Constant(1)))
