"""Edits of a method's syntax tree: calls of activations become calls of units.

Note [Two methods]. A bound unit needs the input of an earlier layer. If another method of the same
module calls that layer, the edited method calls a second form of the other method. The second form
returns the original value and the layer's input.
"""

import ast
import copy
from collections import Counter
from typing import Any, NamedTuple

from gatewise.surgery.calls import (
    HOLDER,
    Def,
    Position,
    Reader,
    Source,
    Unreadable,
    around_operands,
    can_rebind,
    first_line,
    input_of,
    input_of_whole,
    is_at,
    is_reads_form,
    is_sum_form,
    is_whole_form,
    operands_of,
    scope,
)


class Through(NamedTuple):
    """Another method that calls the layer of a bound unit. See Note [Two methods].

    Attributes:
        method: The method that calls the layer.
        attribute: The layer is ``self.ATTRIBUTE``.
        position: Where the edited method calls ``method``.
    """

    method: str
    attribute: str
    position: Position


class CallEdit(NamedTuple):
    """One call to replace, as plain data. A recipe is a tuple of such edits.

    Attributes:
        slot: The unit is ``self.gw.SLOT``.
        defined_in: The class that defines the method.
        method: The method that makes the call.
        digest: SHA-256 of the source file.
        position: The call's position in the file.
        form: Where the input is written, see :class:`CallSite`.
        inplace: Whether the call writes into its input.
        iterations: How many units the slot has, one for each iteration of a loop. ``None`` if it is
            a single unit.
        kept: The iterations that keep the original call.
        source: Position and form of the call of the layer that the unit is bound to.
        through: Set if another method makes that call. See Note [Two methods].
    """

    slot: str
    defined_in: str
    method: str
    digest: str
    position: Position
    form: str
    inplace: bool
    iterations: int | None
    kept: tuple[int, ...] = ()
    source: tuple[Position, str] | None = None
    through: Through | None = None


def edited(
    source: Source, edits: list[CallEdit], own_name: str, handing: CallEdit | None = None
) -> ast.stmt:
    """Return the top-level statement around a method, with the method's calls replaced.

    Args:
        source: The source of the method.
        edits: The calls to replace.
        own_name: The method's name for its module, usually ``"self"``.
        handing: For a second form, the edit of the unit that is bound to a layer of this method.
            See Note [Two methods].

    Raises:
        Unreadable: The source does not have exactly the calls of ``edits``.
    """
    layers = {}
    for edit in edits:
        if edit.source and not edit.through:
            layers[edit.slot] = source.ancestors(edit.source[0])[0]
    wanted = Counter(position for edit in edits for position in positions_of(edit))
    rewriter = _Rewriter(source.node, edits, own_name, layers)
    if handing is not None and handing.source is not None:
        rewriter = _SecondForm(source.node, edits, own_name, layers)
        rewriter.handing = handing
        wanted[handing.source[0]] += 1
    statement = rewriter.visit(copy.deepcopy(source.statement))
    if rewriter.visited != wanted:
        raise Unreadable("source_changed")
    return ast.fix_missing_locations(statement)


def positions_of(edit: CallEdit) -> list[Position]:
    """Return the positions of the calls that ``edit`` changes in its method."""
    if edit.through is not None:
        return [edit.position, edit.through.position]
    return [edit.position] if edit.source is None else [edit.position, edit.source[0]]


def second_form(edit: CallEdit) -> str:
    """Return the name of the second form of a method. See Note [Two methods]."""
    return f"_gw_{edit.slot}_{edit.through.method}" if edit.through else ""


class _Rewriter(ast.NodeTransformer):
    """Replaces the calls in one method.

    Attributes:
        path: The node that is visited, and the nodes around it.
        producers: By slot, the call of the layer that the unit is bound to.
        visited: How often each position was replaced.
        starts: By function, the statements to insert at its start.
    """

    def __init__(
        self,
        method: Def | ast.Lambda,
        edits: list[CallEdit],
        own_name: str,
        producers: dict[str, ast.AST],
    ) -> None:
        self.name = getattr(method, "name", None)
        self.line = first_line(method)
        self.edits = edits
        self.own_name = own_name
        self.path: list[ast.AST] = []
        self.producers = producers
        self.visited: Counter[Position] = Counter()
        self.starts: dict[ast.AST, list[ast.stmt]] = {}

    def visit(self, node: ast.AST) -> Any:
        """Visit ``node`` and keep ``path`` up to date."""
        self.path.insert(0, node)
        try:
            return super().visit(node)
        finally:
            self.path.pop(0)

    def visit_FunctionDef(self, node: Def) -> ast.AST:
        """Insert the start of counters and kept inputs at the top, after the docstring."""
        self.generic_visit(node)
        place = int(ast.get_docstring(node, clean=False) is not None)
        first = node.body[0]
        starts = [ast.copy_location(start, first) for start in self.starts.get(node, ())]
        node.body[place:place] = starts
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815  ast's name

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace the call by the unit if an edit names it.

        If the call is that of a layer with a bound unit, keep its input in a variable.
        """
        through = None
        bound = []
        # Positions must be compared before the visit, which may change the call.
        for edit in self.edits if self._in_method() else ():
            if edit.through:
                if is_at(node, edit.through.position):
                    through = edit
            elif edit.source and is_at(node, edit.source[0]):
                bound.append(edit)
        new = self._visit_reader(node)
        for edit in bound:
            self._keep_input(node, edit)
        if through is not None:
            return ast.copy_location(self._call_second_form(node, through), node)
        return new

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Replace an addition by the unit, or put the unit around an operand."""
        return self._visit_reader(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """Replace an addition by the unit: ``y += x`` becomes ``y = unit(y, x)``."""
        new = self._visit_reader(node)
        if isinstance(new, ast.expr):
            return ast.copy_location(ast.Assign([node.target], new), node)
        return new

    def _visit_reader(self, node: Reader) -> ast.AST:
        """Return what takes the place of a call or an operator."""
        edits = self.edits if self._in_method() else ()
        # Positions must be compared before the visit, which may change the call.
        edit = next((each for each in edits if is_at(node, each.position)), None)
        if edit is None:
            return self.generic_visit(node)
        self.visited[edit.position] += 1
        if is_whole_form(edit.form):
            new = self._of_whole(node, edit)
        else:
            self.generic_visit(node)
            if is_reads_form(edit.form):
                return self._around_operands(node, edit)
            new = self._replacement(node, edit)
        return ast.copy_location(new, node)

    def _around_operands(self, node: Reader, edit: CallEdit) -> ast.AST:
        """Return the call with the unit around its operands."""

        def unit(operand: ast.expr) -> ast.expr:
            call = self._unit_call(copy.deepcopy(operand), edit, [operand])
            return ast.copy_location(call, operand)

        return ast.copy_location(around_operands(node, edit.form, unit), node)

    def _of_whole(self, node: Reader, edit: CallEdit) -> ast.expr:
        """Return the call of the unit on the input of an activation of several calls.

        Only the input is visited: the other text is left out.
        """
        plain = ast.Constant(None)
        if isinstance(node, ast.expr):
            plain = copy.deepcopy(node)
        source = self.visit(input_of_whole(node, edit.form))
        return self._unit_call(plain, edit, [source])

    def _keep_input(self, call: ast.Call, edit: CallEdit) -> None:
        """Store the input of a layer's call in a variable of the function around it."""
        position, form = edit.source or ((0, 0, 0, 0), "")
        self.visited[position] += 1
        name = _kept_input(edit)
        source = input_of(call, form)
        self._start(_assign(name, ast.Constant(None)))
        keep = ast.copy_location(ast.NamedExpr(ast.Name(name, ast.Store()), source), source)
        if form == "argument":
            call.args[0] = keep
        else:
            next(keyword for keyword in call.keywords if keyword.value is source).value = keep

    def _call_second_form(self, call: ast.Call, edit: CallEdit) -> ast.expr:
        """Return the call of a method's second form. See Note [Two methods]."""
        position = edit.through.position if edit.through else edit.position
        self.visited[position] += 1
        # The variable must exist even if a branch skips the call.
        nothing = ast.Tuple([ast.Constant(None), ast.Constant(None)], ast.Load())
        self._start(_assign(_kept_input(edit), nothing))
        method = ast.Attribute(_load(self.own_name), second_form(edit), ast.Load())
        both = ast.Call(method, call.args, call.keywords)
        pair = ast.NamedExpr(ast.Name(_kept_input(edit), ast.Store()), both)
        return ast.Subscript(pair, ast.Constant(0), ast.Load())

    def _start(self, statement: ast.stmt) -> None:
        """Insert a statement at the start of the function around what is visited."""
        self.starts.setdefault(scope(self.path), []).append(statement)

    def _in_method(self) -> bool:
        """Whether the visited node is inside the method that is edited."""
        return any(
            isinstance(node, Def | ast.Lambda) and self._is_method(node) for node in self.path
        )

    def _is_method(self, function: ast.AST) -> bool:
        """Whether ``node`` defines the method that is edited."""
        name = getattr(function, "name", None)
        return name == self.name and first_line(function) == self.line

    def _replacement(self, node: Reader, edit: CallEdit) -> ast.expr:
        """Return the expression that replaces a call or an operator."""
        if not isinstance(node, ast.Call):
            first, second = operands_of(node)
            plain = ast.BinOp(copy.deepcopy(first), ast.Add(), copy.deepcopy(second))
            return self._unit_call(plain, edit, [first, second])
        if is_sum_form(edit.form):
            operands = list(operands_of(node))
        else:
            operands = [input_of(node, edit.form)]
        first = operands[0]
        new = self._unit_call(node, edit, operands)
        if edit.inplace and isinstance(first, ast.Name) and can_rebind(self.path, first.id):
            # Code that reads the variable later must see the result.
            return ast.NamedExpr(ast.Name(first.id, ast.Store()), new)
        return new

    def _unit_call(self, call: ast.expr, edit: CallEdit, operands: list[ast.expr]) -> ast.expr:
        """Return the call of the unit on ``operands``, counting the iterations of a loop.

        For kept iterations, the result chooses between the unit and the original ``call``:
        ``self.gw.s0(_gw_s0, x) if (_gw_s0 := _gw_s0 + 1) not in (0, 2) else relu(x)``.
        """
        holder = ast.Attribute(_load(self.own_name), HOLDER, ast.Load())
        unit = ast.Attribute(holder, edit.slot, ast.Load())
        args = [*operands, *self._bound_to(edit)]
        if edit.iterations is None:
            return ast.Call(unit, args, [])
        counter = f"_gw_{edit.slot}"
        start = _assign(counter, ast.UnaryOp(ast.USub(), ast.Constant(1)))
        self._start(start)
        following = ast.BinOp(_load(counter), ast.Add(), ast.Constant(1))
        step = ast.NamedExpr(ast.Name(counter, ast.Store()), following)
        if not edit.kept:
            return ast.Call(unit, [step, *args], [])
        kept = ast.Tuple([ast.Constant(number) for number in edit.kept], ast.Load())
        replaced = ast.Compare(step, [ast.NotIn()], [kept])
        return ast.IfExp(replaced, ast.Call(unit, [_load(counter), *args], []), call)

    def _bound_to(self, edit: CallEdit) -> list[ast.expr]:
        """Return the extra arguments of a bound unit: the layer's input, and the layer."""
        if edit.through is not None:
            layer = ast.Attribute(_load(self.own_name), edit.through.attribute, ast.Load())
            return [ast.Subscript(_load(_kept_input(edit)), ast.Constant(1), ast.Load()), layer]
        producer = self.producers.get(edit.slot)
        if not isinstance(producer, ast.Call):
            return []
        return [_load(_kept_input(edit)), copy.deepcopy(producer.func)]


class _SecondForm(_Rewriter):
    """Makes the second form of a method. See Note [Two methods]."""

    handing: CallEdit

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Keep the input of the layer's call in a variable."""
        layer = self.handing.source if self._in_method() else None
        is_layer = layer is not None and is_at(node, layer[0])
        new = super().visit_Call(node)
        if is_layer:
            self._keep_input(node, self.handing)
        return new

    def visit_Return(self, node: ast.Return) -> ast.AST:
        """Return the kept input with the value, if the method itself returns."""
        home = scope(self.path)
        self.generic_visit(node)
        if self._is_method(home):
            value = node.value or ast.Constant(None)
            node.value = ast.Tuple([value, _load(_kept_input(self.handing))], ast.Load())
        return node


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _kept_input(edit: CallEdit) -> str:
    """Return the name of the variable that keeps the layer's input."""
    return f"_gw_{edit.slot}_source"
