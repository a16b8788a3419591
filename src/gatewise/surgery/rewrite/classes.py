"""A subclass with rewritten methods, made from a class and a recipe.

The same pair gives the same subclass.

Note [Where a rewritten method goes]. A method of the module's own class is replaced in the
subclass. One that is inherited may be reached by ``super()`` from a class between, which looks past
the subclass. So it is replaced in a subclass of the class that defines it, and that one is put
among the bases: python then orders it right before the class it replaces, for ``super()`` as for
plain lookup.

Note [Pickle and copy]. The subclass has no importable name. An instance is therefore rebuilt from
the original class and the recipe, in this process or another; if the source has changed meanwhile,
that is an error.
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
    edited_second_form,
    positions_of,
    second_form,
)

Recipe = tuple[CallEdit, ...]
_BASE, _RECIPE = "_gatewise_base", "_gatewise_recipe"
_made: WeakValueDictionary[tuple[type, Recipe], type] = WeakValueDictionary()
_making = threading.RLock()


def base_and_recipe(kind: type) -> tuple[type, Recipe]:
    """What ``kind`` was made from; itself and nothing if it was not made here."""
    return vars(kind).get(_BASE, kind), vars(kind).get(_RECIPE, ())


def rewritten_class(base: type, recipe: Recipe) -> type:
    """The subclass of ``base`` in which the calls that ``recipe`` names are calls of units."""
    with _making:
        kind = _made.get((base, recipe))
        if kind is None:
            kind = _made[base, recipe] = _make(base, recipe)
        return kind


def _make(base: type, recipe: Recipe) -> type:
    homes = {home: _new_methods(home, edits) for home, edits in _by_home(base, recipe).items()}
    own = homes.pop(base, {})
    between = [_subclass(home, (home,), methods | {HOME: home}) for home, methods in homes.items()]
    marks = {_BASE: base, _RECIPE: recipe, HOME: base, "__reduce_ex__": _reduce_ex}
    return _subclass(base, (base, *between), own | marks)  # Note [Where a rewritten method goes]


def _subclass(like: type, bases: tuple[type, ...], names: dict[str, Any]) -> type:
    told = {
        "__module__": like.__module__,
        "__qualname__": like.__qualname__,
        "__doc__": like.__doc__,
    }
    return type(like)(like.__name__, bases, told | names)


def _by_home(base: type, recipe: Recipe) -> dict[type, list[CallEdit]]:
    """The edits by the class that defines the method, in the order of ``base``'s ancestry."""
    grouped = {home: [e for e in recipe if e.defined_in == name_of(home)] for home in base.__mro__}
    if sum(map(len, grouped.values())) != len(recipe):
        missing = {edit.defined_in for edit in recipe} - {name_of(home) for home in base.__mro__}
        raise ArgumentError(
            f"{name_of(base)} does not come from a class that the recipe names", got=sorted(missing)
        )
    return {home: edits for home, edits in grouped.items() if edits}


def _new_methods(home: type, edits: list[CallEdit]) -> dict[str, Any]:
    if home is nn.Sequential:
        producers = {edit.slot: edit.form for edit in edits if edit.source is None}
        after = {
            edit.source[1]: (edit.slot, edit.form) for edit in edits if edit.source is not None
        }
        return {"forward": forward_with_bound_children(producers, after)}
    new: dict[str, Any] = {}
    for name in dict.fromkeys(edit.method for edit in edits):
        of_method = [edit for edit in edits if edit.method == name]
        try:
            function, source = _function_and_source(home, name, of_method)
            code = _new_code(function, source, of_method)
        except Unreadable as reason:
            raise _cannot(home, name, str(reason)) from None
        for alias, value in vars(
            home
        ).items():  # `forward = _forward` is the same method under two names
            layers = list(layers_of(value, f"{home.__qualname__}.{alias}"))
            if any(layer is function for layer in layers):
                new[alias] = _rewrapped(layers, function, code)
    for edit in (each for each in edits if each.through):
        new[second_form(edit)] = _second_form(home, edit, edits)
    return new


def _second_form(home: type, edit: CallEdit, edits: list[CallEdit]) -> FunctionType:
    """The method that also returns the input of the layer that ``edit`` is bound to."""
    name = edit.through.method if edit.through else ""
    own = [each for each in edits if each.method == name]
    layer = edit._replace(
        position=edit.source[0] if edit.source else edit.position, source=None, through=None
    )
    try:
        function, source = _function_and_source(home, name, [*own, layer])
        code = _new_code(function, source, own, edit)
    except Unreadable as reason:
        raise _cannot(home, name, str(reason)) from None
    return _rewrapped(
        list(layers_of(vars(home)[name], f"{home.__qualname__}.{name}")), function, code
    )


def _cannot(home: type, method: str, reason: str) -> ArgumentError:
    fix = "record the calls again" if reason == "source_changed" else None
    return ArgumentError(
        f"{name_of(home)}.{method} cannot be rewritten: {REFUSALS[reason]}", fix=fix
    )


def _function_and_source(home: type, name: str, edits: list[CallEdit]) -> tuple[FunctionType, Source]:
    """The function under the decorators of ``home.name`` in which the edits stand, and its source."""
    for function in layers_of(vars(home).get(name), f"{home.__qualname__}.{name}"):
        source = source_of(function)
        found = all(source.ancestors(position) for edit in edits for position in positions_of(edit))
        if found and all(source.text.digest == edit.digest for edit in edits):
            return function, source
    raise Unreadable("source_changed")


def _new_code(
    function: FunctionType, source: Source, edits: list[CallEdit], handing: CallEdit | None = None
) -> CodeType:
    old = function.__code__
    own_name = old.co_varnames[0]
    try:
        if handing is None:
            statement = edited(source, edits, own_name)
        else:
            statement = edited_second_form(source, edits, own_name, handing)
        compiled = compile_statement(statement, source.text.imports, old.co_filename)
    except (
        SyntaxError
    ):  # a counter where python allows no assignment: in what a comprehension goes through
        raise Unreadable("not_recognised") from None
    same = (
        c
        for c in code_tree(compiled)
        if (c.co_name, c.co_firstlineno) == (old.co_name, old.co_firstlineno)
    )
    return next(
        c for c in same if c.co_varnames[: c.co_argcount] == old.co_varnames[: old.co_argcount]
    )


def _rewrapped(layers: list[FunctionType], function: FunctionType, code: CodeType) -> FunctionType:
    """The method under its decorators, without running these.

    Each wrapper is copied around a new inside.
    """
    new = function_like(function, code)
    setattr(new, ORIGINAL, function)
    inside = function
    for wrapper in reversed(layers[: layers.index(function)]):
        free = zip(wrapper.__code__.co_freevars, wrapper.__closure__ or (), strict=True)
        cells = {name: CellType(new) for name, cell in free if content(cell) is inside}
        new = function_like(wrapper, wrapper.__code__, cells)
        if "__wrapped__" in vars(new):
            vars(new)["__wrapped__"] = next(iter(cells.values())).cell_contents
        inside = wrapper
    return new


def _reduce_ex(self: Any, protocol: Any) -> Any:
    """Note [Pickle and copy]."""
    kind = next(k for k in type(self).__mro__ if _BASE in vars(k))
    base, recipe = base_and_recipe(kind)
    make, args, *rest = super(kind, self).__reduce_ex__(protocol)
    plain_args = tuple(base if arg is kind else arg for arg in args)
    return _rebuild, (base, tuple(tuple(edit) for edit in recipe), make, plain_args), *rest


def _rebuild(base: type, recipe: Any, make: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    instance = make(*args)
    instance.__class__ = rewritten_class(base, tuple(CallEdit.from_plain(edit) for edit in recipe))
    return instance
