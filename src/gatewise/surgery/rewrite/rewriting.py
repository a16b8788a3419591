"""Put units in place of recorded calls, by rewriting the methods that make them.

And take them out again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import nn

from gatewise.errors import ArgumentError
from gatewise.surgery.calls import HOLDER, CallSite, CallUnits, Position, UnitsOfLoop
from gatewise.surgery.rewrite.classes import Recipe, base_and_recipe, rewritten_class
from gatewise.surgery.rewrite.source_edits import CallEdit, Through

Pairs = list[tuple[CallSite, nn.Module]]


@dataclass(frozen=True)
class OwnerChange:
    """One owner before and after: its class, and those of its submodules that change (None.

    There is none).
    """

    owner: nn.Module
    old_class: type
    new_class: type
    old_children: dict[str, nn.Module | None]
    new_children: dict[str, nn.Module]

    def make(self) -> None:
        """Give the owner its new class and submodules."""
        object.__setattr__(self.owner, "__class__", self.new_class)
        self.owner._modules.update(self.new_children)

    def take_back(self) -> None:
        """Give the owner its old ones back."""
        object.__setattr__(self.owner, "__class__", self.old_class)
        for name, child in self.old_children.items():
            if child is not None:
                self.owner._modules[name] = child
            else:
                self.owner._modules.pop(name, None)

    def stands(self) -> bool:
        """Whether the owner is as the change left it."""
        children = self.owner._modules
        return type(self.owner) is self.new_class and all(
            children.get(k) is v for k, v in self.new_children.items()
        )


@dataclass
class Undo:
    """What :func:`rewrite_calls` did. Calling it puts everything back, once."""

    changes: list[OwnerChange] = field(default_factory=list)

    def __call__(self) -> None:
        """Give every owner its class and its submodules back."""
        for change in self.changes:
            if not change.stands():
                raise ArgumentError(
                    "this rewrite cannot be undone: an owner is no longer as the rewrite left it",
                    got=type(change.owner).__qualname__,
                    fix="undo the later rewrites first, and each only once",
                )
        for change in reversed(self.changes):
            change.take_back()


def rewrite_calls(model: nn.Module, calls: Sequence[CallSite], units: Sequence[nn.Module]) -> Undo:
    """Put ``units[i]`` in place of ``calls[i]`` in ``model``, and return how to undo it.

    Every owner becomes an instance of a subclass of its class in which the calls are calls of
    ``self.gw.s0(x)`` and so on; arguments beyond the input are left out. Parameters of units are
    found under the owner's ``gw.``, all other names of the state dict are unchanged. Calls that
    share a slot are given the same unit, or only one of them is given. An exception leaves the
    model as it was.
    """
    _check(calls, units)
    owners: dict[str, Pairs] = {}
    for call, unit in zip(calls, units, strict=True):
        owners.setdefault(call.owner, []).append((call, unit))
    return make_changes([planned(owner_of(model, path), pairs) for path, pairs in owners.items()])


def make_changes(changes: list[OwnerChange]) -> Undo:
    """Make all changes, or none if one fails."""
    undo, done = Undo(changes), []
    try:
        for change in undo.changes:
            done.append(change)
            change.make()
    except BaseException:
        for change in reversed(done):
            change.take_back()
        raise
    return undo


def restore_calls(model: nn.Module, *, children: bool = True) -> int:
    """Take every rewrite out of ``model``, be it a copy or from a file, and return how many modules had one.

    Classes, submodules and their order are what they were before; units that were put in are lost. With
    ``children=False`` those that took the place of a Sequential's children stay, for the caller to put back.
    """
    owners = [module for module in model.modules() if base_and_recipe(type(module))[1]]
    if children and any(isinstance(owner, nn.Sequential) for owner in owners):
        what = "restore_calls: children of a Sequential were replaced, and only what bind_calls returned can undo that"
        raise ArgumentError(what, fix="call that Undo")
    for owner in owners:
        object.__setattr__(owner, "__class__", base_and_recipe(type(owner))[0])
        owner._modules.pop(HOLDER, None)
    return len(owners)


def _check(calls: Sequence[CallSite], units: Sequence[nn.Module]) -> None:
    if not calls or len(calls) != len(units):
        got = f"{len(calls)} calls, {len(units)} units"
        raise ArgumentError(
            "rewrite_calls: needs one unit for each call, and at least one", got=got
        )
    for call in calls:
        if call.refused:
            raise ArgumentError(
                f"rewrite_calls: {call.owner or 'the model'}: a call cannot be rewritten: {call.reason}"
            )
    for unit in units:
        if not isinstance(unit, nn.Module):
            raise ArgumentError("rewrite_calls: a unit is not a module", got=type(unit).__name__)


def owner_of(model: nn.Module, path: str) -> nn.Module:
    """The module at ``path``; an error of ours where there is none."""
    try:
        return model.get_submodule(path)
    except AttributeError:
        fix = "record the calls of this model"
        raise ArgumentError(
            "rewrite_calls: the model has no such owner", got=path, fix=fix
        ) from None


def planned(
    owner: nn.Module, pairs: Pairs, producers: Mapping[Position, CallSite] | None = None
) -> OwnerChange:
    """The change of ``owner`` that puts each unit in its call's place, bound to the layers in ``producers``."""
    base, old = base_and_recipe(type(owner))
    old_units = owner._modules.get(HOLDER)
    if isinstance(old_units, CallUnits) != bool(old) or (hasattr(owner, HOLDER) and not old):
        raise ArgumentError(
            f"rewrite_calls: {type(owner).__qualname__} has an attribute {HOLDER!r} of its own"
        )
    new, units = _edits(pairs, old)
    new = tuple(_bound_edit(edit, (producers or {}).get(edit.position)) for edit in new)
    kind = rewritten_class(base, old + new)
    holder = CallUnits()
    for name, unit in [*(old_units or holder).named_children(), *units.items()]:
        holder.add_module(name, unit)
    return OwnerChange(
        owner, type(owner), kind, {HOLDER: old_units}, {HOLDER: holder.train(owner.training)}
    )


def _bound_edit(edit: CallEdit, producer: CallSite | None) -> CallEdit:
    if producer is None:
        return edit
    through = producer.through and Through(
        producer.method, producer.attribute or "", producer.through
    )
    return edit._replace(source=(producer.position, producer.form), through=through)


def _edits(pairs: Pairs, old: Recipe) -> tuple[Recipe, dict[str, nn.Module]]:
    """The edits for one owner's calls, and the unit (or the units of a loop) for each."""
    places: dict[object, dict[int | None, tuple[CallSite, nn.Module]]] = {}
    for call, unit in pairs:
        slots = places.setdefault(call.place, {})
        if slots.setdefault(call.iteration, (call, unit))[1] is not unit:
            what = "rewrite_calls: calls that share a unit are given different ones"
            raise ArgumentError(
                what, got=f"{call.file}:{call.position[0]}", fix="give each of them the same unit"
            )
    taken = {(edit.defined_in, edit.method, edit.position) for edit in old}
    edits, units = [], {}
    for number, slots in enumerate(places.values(), start=len(old)):
        edit = _edit(f"s{number}", slots)
        if (edit.defined_in, edit.method, edit.position) in taken:
            raise ArgumentError(
                "rewrite_calls: a call is already rewritten", fix="undo the earlier rewrite first"
            )
        edits.append(edit)
        units[edit.slot] = _holder(slots)
    return tuple(edits), units


def _edit(name: str, slots: dict[int | None, tuple[CallSite, nn.Module]]) -> CallEdit:
    call = next(iter(slots.values()))[0]
    kept = (
        ()
        if call.iterations is None
        else tuple(i for i in range(call.iterations) if i not in slots)
    )
    return CallEdit(
        slot=name,
        defined_in=call.defined_in,
        method=call.method,
        digest=call.digest,
        position=call.position,
        form=call.form,
        inplace=call.inplace,
        iterations=call.iterations,
        kept=kept,
    )


def _holder(slots: dict[int | None, tuple[CallSite, nn.Module]]) -> nn.Module:
    if None in slots:
        return slots[None][1]
    return UnitsOfLoop({number: unit for number, (_, unit) in slots.items() if number is not None})
