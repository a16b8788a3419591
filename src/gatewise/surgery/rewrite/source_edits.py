"""Edits of a method's syntax tree.

A call of an activation becomes a call of a unit, and nothing else changes.
"""

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from gatewise.surgery.calls import HOLDER as HOLDER
from gatewise.surgery.calls import (
    Def,
    Position,
    Reader,
    Source,
    Unreadable,
    around_operands,
    can_rebind,
    first_line,
    input_of,
    is_reads_form,
    is_sum_form,
    operands_of,
    scope,
    stands_at,
)


class Through(NamedTuple):
    """Note [Two methods].

    The layer is called by ``method``, which the edited method calls at ``position``.

    That call becomes one of a second form of ``method``, which returns what it returned and the
    layer's input.
    """

    method: str
    attribute: str  # the layer is `self.ATTRIBUTE`
    position: Position


class CallEdit(NamedTuple):
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
    source: tuple[Position, str] | None = (
        None  # the producing layer's call, whose input and layer the unit is given
    )
    through: Through | None = (
        None  # where that call is made by another method: see Note [Two methods]
    )

    @classmethod
    def from_plain(cls, data: Any) -> "CallEdit":
        """The edit that ``tuple(edit)`` was, JSON's lists allowed."""
        edit = cls(*data)
        source = None if edit.source is None else (_position(edit.source[0]), str(edit.source[1]))
        through = (
            None if edit.through is None else Through(*edit.through[:2], _position(edit.through[2]))
        )
        return edit._replace(
            position=_position(edit.position), kept=tuple(edit.kept), source=source, through=through
        )


def _position(numbers: Iterable[int]) -> Position:
    line, last_line, column, last_column = numbers
    return line, last_line, column, last_column


def edited(source: Source, edits: list[CallEdit], own_name: str) -> ast.stmt:
    """The top-level statement around the method, with the method's calls replaced."""
    here = [edit for edit in edits if edit.source and not edit.through]
    layers = {edit.slot: source.ancestors(edit.source[0])[0] for edit in here if edit.source}
    rewriter = _Rewriter(source.node, edits, own_name, layers)
    statement = rewriter.visit(copy.deepcopy(source.statement))
    if rewriter.found != Counter(position for edit in edits for position in positions_of(edit)):
        raise Unreadable("source_changed")
    return ast.fix_missing_locations(statement)


def positions_of(edit: CallEdit) -> list[Position]:
    """The calls that ``edit`` touches in its own method."""
    if edit.through is not None:
        return [edit.position, edit.through.position]
    return [edit.position] if edit.source is None else [edit.position, edit.source[0]]


def second_form(edit: CallEdit) -> str:
    """The name of the method that also returns the layer's input. Note [Two methods]."""
    return f"_gw_{edit.slot}_{edit.through.method}" if edit.through else ""


class _Rewriter(ast.NodeTransformer):
    def __init__(
        self,
        method: Def | ast.Lambda,
        edits: list[CallEdit],
        own_name: str,
        producers: dict[str, ast.AST],
    ) -> None:
        self.name, self.line = getattr(method, "name", None), first_line(method)
        self.edits, self.own_name = edits, own_name
        self.path: list[ast.AST] = []  # the node being visited first
        self.producers = producers  # by slot, the call of the layer before the unit
        self.found: Counter[Position] = Counter()
        self.starts: dict[
            ast.AST, list[ast.stmt]
        ] = {}  # by function, what its first statements are to be

    def visit(self, node: ast.AST) -> Any:
        """Visit ``node`` with its ancestors at hand."""
        self.path.insert(0, node)
        try:
            return super().visit(node)
        finally:
            self.path.pop(0)

    def visit_FunctionDef(self, node: Def) -> ast.AST:
        """Start the function's counters at its top, after its docstring."""
        self.generic_visit(node)
        at = int(ast.get_docstring(node, clean=False) is not None)
        node.body[at:at] = [
            ast.copy_location(start, node.body[0]) for start in self.starts.get(node, ())
        ]
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815  ast's name

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Put the unit in place of the call if an edit names it.

        Keep the call's input if it produces a unit's.
        """
        path, inside = list(self.path), self._in_method()
        edit = next((e for e in self.edits if inside and stands_at(node, e.position)), None)
        bound = [
            e
            for e in self.edits
            if inside and e.source and not e.through and stands_at(node, e.source[0])
        ]
        through = next(
            (e for e in self.edits if inside and e.through and stands_at(node, e.through.position)),
            None,
        )
        self.generic_visit(node)
        for each in bound:
            self._keep_input(node, each, scope(path))
        if through is not None:
            return ast.copy_location(self._call_second_form(node, through, scope(path)), node)
        if edit is None:
            return node
        self.found[edit.position] += 1
        if is_reads_form(edit.form):
            return self._around_operands(node, edit, path)
        return ast.copy_location(self._replacement(node, edit, path), node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Put the unit in place of an addition, or around an operand, if an edit names it."""
        return self._visit_operator(node, lambda new: new)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """As for an addition: ``y += x`` becomes ``y = unit(y, x)``."""
        return self._visit_operator(node, lambda new: ast.Assign([node.target], new))

    def _visit_operator(
        self, node: ast.BinOp | ast.AugAssign, finish: Callable[[ast.expr], ast.expr | ast.stmt]
    ) -> ast.AST:
        path, inside = list(self.path), self._in_method()
        edits = (e for e in self.edits if inside and (is_sum_form(e.form) or is_reads_form(e.form)))
        edit = next((e for e in edits if stands_at(node, e.position)), None)
        self.generic_visit(node)
        if edit is None:
            return node
        self.found[edit.position] += 1
        if is_reads_form(edit.form):
            return self._around_operands(node, edit, path)
        return ast.copy_location(finish(self._of_sum(node, edit, path)), node)

    def _around_operands(self, node: Reader, edit: CallEdit, path: list[ast.AST]) -> ast.AST:
        """The call itself, with the unit around what it reads."""

        def unit(given: ast.expr) -> ast.expr:
            called = self._unit_call(copy.deepcopy(given), edit, [given], scope(path))
            return ast.copy_location(called, given)

        return ast.copy_location(around_operands(node, edit.form, unit), node)

    def _of_sum(self, node: ast.BinOp | ast.AugAssign, edit: CallEdit, path: list[ast.AST]) -> ast.expr:
        first, second = operands_of(node)
        plain = ast.BinOp(copy.deepcopy(first), ast.Add(), copy.deepcopy(second))
        return ast.copy_location(self._unit_call(plain, edit, [first, second], scope(path)), node)

    def _keep_input(self, call: ast.Call, edit: CallEdit, home: ast.AST) -> None:
        position, form = edit.source or ((0, 0, 0, 0), "")
        self.found[position] += 1
        name, given = _kept_input(edit), input_of(call, form)
        self.starts.setdefault(home, []).append(_assign(name, ast.Constant(None)))
        keep = ast.copy_location(ast.NamedExpr(ast.Name(name, ast.Store()), given), given)
        if form == "argument":
            call.args[0] = keep
        else:
            next(keyword for keyword in call.keywords if keyword.value is given).value = keep

    def _call_second_form(self, call: ast.Call, edit: CallEdit, home: ast.AST) -> ast.expr:
        """Note [Two methods]."""
        position = edit.through.position if edit.through else edit.position
        self.found[position] += 1
        nothing = ast.Tuple([ast.Constant(None), ast.Constant(None)], ast.Load())
        self.starts.setdefault(home, []).append(_assign(_kept_input(edit), nothing))
        method = ast.Attribute(_load(self.own_name), second_form(edit), ast.Load())
        pair = ast.NamedExpr(
            ast.Name(_kept_input(edit), ast.Store()), ast.Call(method, call.args, call.keywords)
        )
        return ast.Subscript(pair, ast.Constant(0), ast.Load())

    def _in_method(self) -> bool:
        return any(
            getattr(n, "name", None) == self.name and first_line(n) == self.line
            for n in self.path
            if is_def(n)
        )

    def _replacement(self, call: ast.Call, edit: CallEdit, path: list[ast.AST]) -> ast.expr:
        operands = (
            list(operands_of(call)) if is_sum_form(edit.form) else [input_of(call, edit.form)]
        )
        given, new = operands[0], self._unit_call(call, edit, operands, scope(path))
        if edit.inplace and isinstance(given, ast.Name) and can_rebind(path, given.id):
            return ast.NamedExpr(
                ast.Name(given.id, ast.Store()), new
            )  # later readers of the name see the result
        return new

    def _unit_call(
        self, call: ast.expr, edit: CallEdit, given: list[ast.expr], home: ast.AST
    ) -> ast.expr:
        unit = ast.Attribute(
            ast.Attribute(_load(self.own_name), HOLDER, ast.Load()), edit.slot, ast.Load()
        )
        args = [*given, *self._bound_to(edit)]
        if edit.iterations is None:
            return ast.Call(unit, args, [])
        counter = f"_gw_{edit.slot}"
        self.starts.setdefault(home, []).append(
            _assign(counter, ast.UnaryOp(ast.USub(), ast.Constant(1)))
        )
        step = ast.NamedExpr(
            ast.Name(counter, ast.Store()), ast.BinOp(_load(counter), ast.Add(), ast.Constant(1))
        )
        if not edit.kept:
            return ast.Call(unit, [step, *args], [])
        kept = ast.Tuple([ast.Constant(each) for each in edit.kept], ast.Load())
        is_ours = ast.Compare(step, [ast.NotIn()], [kept])
        return ast.IfExp(is_ours, ast.Call(unit, [_load(counter), *args], []), call)

    def _bound_to(self, edit: CallEdit) -> list[ast.expr]:
        """The input of the producing layer, and the layer as the method itself names it."""
        if edit.through is not None:
            layer = ast.Attribute(_load(self.own_name), edit.through.attribute, ast.Load())
            return [ast.Subscript(_load(_kept_input(edit)), ast.Constant(1), ast.Load()), layer]
        producer = self.producers.get(edit.slot)
        return (
            [_load(_kept_input(edit)), copy.deepcopy(producer.func)]
            if isinstance(producer, ast.Call)
            else []
        )


def edited_second_form(source: Source, edits: list[CallEdit], own_name: str, handing: CallEdit) -> ast.stmt:
    """As :func:`edited`, but the method also returns the input of the layer that ``handing`` is bound to."""
    rewriter = _SecondForm(source.node, edits, own_name, handing)
    statement = rewriter.visit(copy.deepcopy(source.statement))
    wanted = Counter(position for edit in edits for position in positions_of(edit))
    if handing.source is None or rewriter.found != wanted + Counter([handing.source[0]]):
        raise Unreadable("source_changed")
    return ast.fix_missing_locations(statement)


class _SecondForm(_Rewriter):
    """Note [Two methods]."""

    def __init__(
        self, method: Def | ast.Lambda, edits: list[CallEdit], own_name: str, handing: CallEdit
    ) -> None:
        super().__init__(method, edits, own_name, {})
        self.handing = handing

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Keep the layer's input."""
        path = list(self.path)
        is_layer = (
            self._in_method() and self.handing.source and stands_at(node, self.handing.source[0])
        )
        new = super().visit_Call(node)
        if is_layer:
            self._keep_input(node, self.handing, scope(path))
        return new

    def visit_Return(self, node: ast.Return) -> ast.AST:
        """Return the kept input beside the value, from the method itself."""
        path, inside = list(self.path), self._in_method()
        self.generic_visit(node)
        home = scope(path)
        if inside and getattr(home, "name", None) == self.name and first_line(home) == self.line:
            value = node.value or ast.Constant(None)
            node.value = ast.Tuple([value, _load(_kept_input(self.handing))], ast.Load())
        return node


def is_def(node: ast.AST) -> bool:
    """Whether ``node`` defines a function."""
    return isinstance(node, Def | ast.Lambda)


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _kept_input(edit: CallEdit) -> str:
    return f"_gw_{edit.slot}_source"
