"""Subclasses with rewritten methods, made from a class and a recipe.

The same class and recipe always give the same subclass.

Note [Where a rewritten method goes]. A method of the module's class is replaced in the subclass. An
inherited method may be called by ``super()`` from a class in between, which does not look into the
subclass. So an inherited method is replaced in a subclass of the class that defines it, and that
subclass is added to the bases. Python then orders it directly before the class that it replaces,
for ``super()`` and for plain lookup.

Note [Pickle and copy]. The subclass has no importable name. So an instance is rebuilt from the
original class and the recipe, in this process or another. If the source has changed since, an error
is raised.
"""

import threading
from collections.abc import Callable
from types import CellType, CodeType, FunctionType
from typing import Any
from weakref import WeakValueDictionary

from torch import nn

from gatewise.errors import ArgumentError
from gatewise.surgery.calls import (
    HOME,
    ORIGINAL,
    REFUSALS,
    Position,
    Source,
    Unreadable,
    code_tree,
    compile_statement,
    content,
    function_like,
    layers_of,
    name_of,
    source_of,
)
from gatewise.surgery.rewrite.sequential import forward_with_bound_children
from gatewise.surgery.rewrite.source_edits import (
    CallEdit,
    edited,
    positions_of,
    second_form,
)

Recipe = tuple[CallEdit, ...]
_BASE = "_gatewise_base"
RECIPE = "_gatewise_recipe"  # on a generated class: what it was made from
_subclasses: WeakValueDictionary[tuple[type, Recipe], type] = WeakValueDictionary()
_lock = threading.RLock()


def base_and_recipe(kind: type) -> tuple[type, Recipe]:
    """Return the class and recipe that ``kind`` was made from: itself and ``()`` if from none."""
    return vars(kind).get(_BASE, kind), vars(kind).get(RECIPE, ())


def rewritten_class(base: type, recipe: Recipe) -> type:
    """Return the subclass of ``base`` in which the calls of ``recipe`` are calls of units."""
    with _lock:
        kind = _subclasses.get((base, recipe))
        if kind is None:
            kind = _subclasses[base, recipe] = _make(base, recipe)
        return kind


def _make(base: type, recipe: Recipe) -> type:
    """Make the subclass, and subclasses of bases whose methods change."""
    homes = {home: _new_methods(home, edits) for home, edits in _by_home(base, recipe).items()}
    methods_of_base = homes.pop(base, {})
    # See Note [Where a rewritten method goes].
    between = [_subclass(home, (home,), methods | {HOME: home}) for home, methods in homes.items()]
    marks = {
        _BASE: base,
        RECIPE: recipe,
        HOME: base,
        "__reduce_ex__": _reduce_ex,
        "__prepare_scriptable__": _refuse_scripting,
    }
    return _subclass(base, (base, *between), methods_of_base | marks)


def _subclass(like: type, bases: tuple[type, ...], names: dict[str, Any]) -> type:
    """Return a class with the name and documentation of ``like``."""
    copied = {name: getattr(like, name) for name in ("__module__", "__qualname__", "__doc__")}
    return type(like)(like.__name__, bases, copied | names)


def _by_home(base: type, recipe: Recipe) -> dict[type, list[CallEdit]]:
    """Return the edits by the class that defines the method, in method resolution order."""
    grouped = {}
    missing = {edit.defined_in for edit in recipe}
    for home in base.__mro__:
        edits = [edit for edit in recipe if edit.defined_in == name_of(home)]
        missing.discard(name_of(home))
        if edits:
            grouped[home] = edits
    if missing:
        raise ArgumentError(
            f"{name_of(base)} does not inherit from a class that the recipe names",
            got=sorted(missing),
        )
    return grouped


def _new_methods(home: type, edits: list[CallEdit]) -> dict[str, Any]:
    """Return the rewritten methods of the class ``home``, by name."""
    if home is nn.Sequential:
        producers = {}
        after = {}
        for edit in edits:
            if edit.source is None:
                producers[edit.slot] = edit.form
            else:
                after[edit.source[1]] = (edit.slot, edit.form)
        return {"forward": forward_with_bound_children(producers, after)}
    new: dict[str, Any] = {}
    for name in dict.fromkeys(edit.method for edit in edits):
        function, code = _new_code(home, name, edits)
        # `forward = _forward` gives one method two names.
        for alias, value in vars(home).items():
            layers = list(layers_of(value, f"{home.__qualname__}.{alias}"))
            if any(layer is function for layer in layers):
                new[alias] = _rewrapped(layers, function, code)
    for edit in edits:
        if edit.through:
            name = edit.through.method
            function, code = _new_code(home, name, edits, edit)
            layers = list(layers_of(vars(home)[name], f"{home.__qualname__}.{name}"))
            new[second_form(edit)] = _rewrapped(layers, function, code)
    return new


def _new_code(
    home: type, name: str, edits: list[CallEdit], handing: CallEdit | None = None
) -> tuple[FunctionType, CodeType]:
    """Return the function of a method, under its decorators, and its code after the edits.

    With ``handing``, it is the code of the second form, which also returns the input of the layer
    that this edit's unit is bound to.
    """
    of_method = [edit for edit in edits if edit.method == name]
    positions = [position for edit in of_method for position in positions_of(edit)]
    if handing is not None and handing.source is not None:
        positions.append(handing.source[0])
    digests = {edit.digest for edit in (*of_method, handing) if edit is not None}
    try:
        function, source = _function_and_source(home, name, positions, digests)
        old = function.__code__
        statement = edited(source, of_method, old.co_varnames[0], handing)
        compiled = compile_statement(statement, source.text.imports, old.co_filename)
    except (SyntaxError, Unreadable) as problem:
        # Python allows no assignment, and so no counter, in what a comprehension iterates over.
        reason = "not_recognised" if isinstance(problem, SyntaxError) else str(problem)
        raise ArgumentError(
            f"{name_of(home)}.{name} cannot be rewritten: {REFUSALS[reason]}",
            fix="record the calls again" if reason == "source_changed" else None,
        ) from None
    codes = code_tree(compiled)
    return function, next(code for code in codes if _signature(code) == _signature(old))


def _function_and_source(
    home: type, name: str, positions: list[Position], digests: set[str]
) -> tuple[FunctionType, Source]:
    """Return the function that has the calls, under the decorators of a method, and its source."""
    for function in layers_of(vars(home).get(name), f"{home.__qualname__}.{name}"):
        source = source_of(function)
        if all(map(source.ancestors, positions)) and digests == {source.text.digest}:
            return function, source
    raise Unreadable("source_changed")


def _signature(code: CodeType) -> tuple[str, int, tuple[str, ...]]:
    """Return what identifies a method's code among nested code objects."""
    return code.co_name, code.co_firstlineno, code.co_varnames[: code.co_argcount]


def _rewrapped(layers: list[FunctionType], function: FunctionType, code: CodeType) -> FunctionType:
    """Return the method with new code under its decorators.

    The decorators are not run again. Every wrapper is copied, with the new function in its closure.
    """
    new = function_like(function, code)
    setattr(new, ORIGINAL, function)
    inside = function
    for wrapper in reversed(layers[: layers.index(function)]):
        cells = {}
        names = wrapper.__code__.co_freevars
        for name, cell in zip(names, wrapper.__closure__ or (), strict=True):
            if content(cell) is inside:
                cells[name] = CellType(new)
        new = function_like(wrapper, wrapper.__code__, cells)
        if "__wrapped__" in vars(new):
            vars(new)["__wrapped__"] = next(iter(cells.values())).cell_contents
        inside = wrapper
    return new


def _refuse_scripting(self: nn.Module) -> nn.Module:
    """Raise an error: torch.jit.script would compile the source text of before the swap."""
    raise ArgumentError(
        "torch.jit.script: would compile the text of the class, which has the calls of before the "
        "swap",
        got=type(self).__qualname__,
        fix="torch.export.export(model, example), or torch.jit.trace(model, example)",
    )


def _reduce_ex(self: Any, protocol: Any) -> Any:
    """Reduce an instance to the original class and the recipe. See Note [Pickle and copy]."""
    kind = next(k for k in type(self).__mro__ if _BASE in vars(k))
    base, recipe = base_and_recipe(kind)
    make, args, *rest = super(kind, self).__reduce_ex__(protocol)
    plain_args = tuple(base if arg is kind else arg for arg in args)
    return _rebuild, (base, recipe, make, plain_args), *rest


def _rebuild(base: type, recipe: Recipe, make: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Build the instance that :func:`_reduce_ex` described."""
    instance = make(*args)
    instance.__class__ = rewritten_class(base, recipe)
    return instance
