"""Replace recorded calls by units, by rewriting the methods that make the calls."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import nn

from gatewise.errors import ArgumentError
from gatewise.surgery.calls import HOLDER, CallSite, CallUnits, Position, UnitsOfLoop
from gatewise.surgery.rewrite.classes import Recipe, base_and_recipe, rewritten_class
from gatewise.surgery.rewrite.source_edits import CallEdit, Through

Pairs = list[tuple[CallSite, nn.Module]]


class OwnerChange(NamedTuple):
    """What a rewrite makes of one owner: its new class, and the submodules that change."""

    owner: nn.Module
    new_class: type
    children: dict[str, nn.Module]

    def make(self) -> None:
        """Give the owner its new class and submodules."""
        # Not `owner.__class__ = ...`, because the user's module may define `__setattr__`.
        object.__setattr__(self.owner, "__class__", self.new_class)
        self.owner._modules.update(self.children)


def rewrite_calls(model: nn.Module, calls: Sequence[CallSite], units: Sequence[nn.Module]) -> None:
    """Replace ``calls[i]`` by ``units[i]`` in ``model``.

    Every owner becomes an instance of a subclass in which the calls are calls of ``self.gw.s0(x)``
    and so on. Arguments other than the input are dropped. In the state dict, the parameters of
    units are under the owner's ``gw.``, and all other names stay. If a call cannot be rewritten,
    the model is unchanged. A :class:`Transaction` that was begun before takes the change back.

    Args:
        model: The model to change in place.
        calls: Recorded calls of this model. Of calls that share a slot, one is enough.
        units: One module for each call. Calls that share a slot must get the same unit.
    """
    _check(calls, units)
    owners: dict[str, Pairs] = {}
    for call, unit in zip(calls, units, strict=True):
        owners.setdefault(call.owner, []).append((call, unit))
    changes = [planned(owner_of(model, path), pairs) for path, pairs in owners.items()]
    for change in changes:
        change.make()


def _check(calls: Sequence[CallSite], units: Sequence[nn.Module]) -> None:
    """Check the arguments of :func:`rewrite_calls`."""
    if not calls or len(calls) != len(units):
        raise ArgumentError(
            "rewrite_calls: needs one unit for each call, and at least one",
            got=f"{len(calls)} calls, {len(units)} units",
        )
    for call in calls:
        if call.refused:
            owner = call.owner or "the model"
            raise ArgumentError(
                f"rewrite_calls: {owner}: a call cannot be rewritten: {call.reason}"
            )
    for unit in units:
        if not isinstance(unit, nn.Module):
            raise ArgumentError("rewrite_calls: a unit is not a module", got=type(unit).__name__)


def owner_of(model: nn.Module, path: str) -> nn.Module:
    """Return the module at ``path``, or raise :class:`ArgumentError`."""
    try:
        return model.get_submodule(path)
    except AttributeError:
        raise ArgumentError(
            "rewrite_calls: the model has no such owner",
            got=path,
            fix="record the calls of this model",
        ) from None


def planned(
    owner: nn.Module, pairs: Pairs, producers: Mapping[Position, CallSite] | None = None
) -> OwnerChange:
    """Return the change of ``owner`` that replaces its calls by units.

    Args:
        owner: The module whose methods make the calls.
        pairs: The calls and their units.
        producers: For units that are bound to a layer: the call of the layer, by the position of
            the unit's call.
    """
    base, old = base_and_recipe(type(owner))
    old_units = owner._modules.get(HOLDER)
    if isinstance(old_units, CallUnits) != bool(old) or (hasattr(owner, HOLDER) and not old):
        raise ArgumentError(
            f"rewrite_calls: {type(owner).__qualname__} has an attribute {HOLDER!r} of its own"
        )
    edits, units = _edits(pairs, old)
    bound = tuple(_bound_edit(edit, (producers or {}).get(edit.position)) for edit in edits)
    holder = CallUnits()
    for name, unit in [*(old_units or holder).named_children(), *units.items()]:
        holder.add_module(name, unit)
    holder.train(owner.training)
    return OwnerChange(owner, rewritten_class(base, old + bound), {HOLDER: holder})


def _bound_edit(edit: CallEdit, producer: CallSite | None) -> CallEdit:
    """Return the edit with the layer that its unit is bound to."""
    if producer is None:
        return edit
    through = None
    if producer.through:
        through = Through(producer.method, producer.attribute or "", producer.through)
    return edit._replace(source=(producer.position, producer.form), through=through)


def _edits(pairs: Pairs, old: Recipe) -> tuple[Recipe, dict[str, nn.Module]]:
    """Return the edits for the calls of one owner, and the unit (or units of a loop) of each."""
    places: dict[object, dict[int | None, tuple[CallSite, nn.Module]]] = {}
    for call, unit in pairs:
        slots = places.setdefault(call.place, {})
        if slots.setdefault(call.iteration, (call, unit))[1] is not unit:
            raise ArgumentError(
                "rewrite_calls: calls that share a unit are given different units",
                got=f"{call.file}:{call.position[0]}",
                fix="give all of them the same unit",
            )
    taken = {(edit.defined_in, edit.method, edit.position) for edit in old}
    edits = []
    units = {}
    # Slots are numbered on, so that names of an earlier rewrite stay.
    for number, slots in enumerate(places.values(), start=len(old)):
        edit = _edit(f"s{number}", slots)
        if (edit.defined_in, edit.method, edit.position) in taken:
            raise ArgumentError(
                "rewrite_calls: a call is already rewritten",
                fix="undo the earlier rewrite first",
            )
        edits.append(edit)
        units[edit.slot] = _holder(slots)
    return tuple(edits), units


def _edit(name: str, slots: dict[int | None, tuple[CallSite, nn.Module]]) -> CallEdit:
    """Return the edit for one call in the source."""
    call = next(iter(slots.values()))[0]
    kept = [number for number in range(call.iterations or 0) if number not in slots]
    return CallEdit(
        slot=name,
        defined_in=call.defined_in,
        method=call.method,
        digest=call.digest,
        position=call.position,
        form=call.form,
        inplace=call.inplace,
        iterations=call.iterations,
        kept=tuple(kept),
    )


def _holder(slots: dict[int | None, tuple[CallSite, nn.Module]]) -> nn.Module:
    """Return the unit of a call, or the units of a call in a loop."""
    if None in slots:
        return slots[None][1]
    return UnitsOfLoop({number: unit for number, (_, unit) in slots.items() if number is not None})
