"""Fit a plan to a model that holds the planned one as a part, or is a part of it."""

from collections.abc import Callable
from dataclasses import replace

from torch import nn

from gatewise.errors import ArgumentError
from gatewise.surgery.binding import Binding
from gatewise.surgery.calls import CallSite
from gatewise.surgery.planning import Entry, PlanData, PutBack, signature_of
from gatewise.words import joined

Rename = Callable[[str], str]


def fit_plan(plan: PlanData, model: nn.Module, prefix: str = "") -> PlanData:
    """The plan with the names that ``model`` has.

    Hugging Face models with a task's head hold the model without a head under a prefix, such as
    ``bert``. Weights of either can be loaded into the other, and so can plans: the prefix is added
    or removed, and what was planned for a head that ``model`` does not have is left out.

    Args:
        plan: the plan.
        model: the model to apply it to.
        prefix: the name of the part without a head; empty if there is none.

    Raises:
        ArgumentError: ``model`` does not have what the plan changes, or has it in other sizes.
    """
    shapes = signature_of(model)
    inside = f"{prefix}."
    planned = bool(prefix) and any(name.startswith(inside) for name in plan.signature)
    present = bool(prefix) and any(name.startswith(inside) for name in shapes)
    rename: Rename = str
    if present and not planned:
        rename = inside.__add__
    elif planned and not present:
        plan = _restricted(plan, lambda path: path == prefix or path.startswith(inside))
        rename = _without(prefix)
    elif planned and present:
        paths = {path for path, _ in model.named_modules()}
        plan = _restricted(plan, lambda path: path.startswith(inside) or path in paths)
    _check_sizes(plan, shapes, rename)
    return _renamed(plan, rename) if rename is not str else plan


def plan_of_part(plan: PlanData, path: str) -> PlanData:
    """What a plan for a model does to the part of it at ``path``, with the names of the part."""
    inside = f"{path}."
    signature = {}
    for name, shape in plan.signature.items():
        if name.startswith(inside):
            signature[name.removeprefix(inside)] = shape
    restricted = _restricted(plan, lambda own: own == path or own.startswith(inside))
    return replace(_renamed(restricted, _without(path)), signature=signature)


def plan_of_whole(plan: PlanData, path: str) -> PlanData:
    """A plan for the part at ``path`` of a model, as a plan for the model."""
    rename: Rename = lambda own: f"{path}.{own}" if own else path  # noqa: E731  passed on twice
    signature = {rename(name): shape for name, shape in plan.signature.items()}
    return replace(_renamed(plan, rename), signature=signature)


def _without(prefix: str) -> Rename:
    return lambda path: "" if path == prefix else path.removeprefix(f"{prefix}.")


def _restricted(plan: PlanData, has: Callable[[str], bool]) -> PlanData:
    """The part of the plan whose modules ``has`` tells to be there."""
    return replace(
        plan,
        entries=tuple(entry for entry in plan.entries if has(entry.path)),
        edits=tuple(edit for edit in plan.edits if has(edit.name.rpartition(".")[0])),
        settings=tuple(setting for setting in plan.settings if has(setting.path)),
        layers={path: slopes for path, slopes in plan.layers.items() if has(path)},
        replaced={path: value for path, value in plan.replaced.items() if has(path)},
        put_back=tuple(edge for edge in plan.put_back if has(edge.owner)),
    )


def _check_sizes(plan: PlanData, shapes: dict[str, tuple[int, ...]], rename: Rename) -> None:
    """An error, if a tensor that the plan changes is missing or has another shape."""
    names = [edit.name for edit in plan.edits]
    names += [f"{path}.weight" for path in {**plan.layers, **plan.replaced}]
    wrong = []
    for name in dict.fromkeys(names):
        # One tensor may have several names, of which the signature has one.
        if name in plan.signature and shapes.get(rename(name)) != plan.signature[name]:
            wrong.append(rename(name))
    if wrong:
        raise ArgumentError(
            "model: its parameters are not those of the model that was swapped",
            got=joined(wrong, 4),
            fix="build the model as the one that was saved",
        )


def _renamed(plan: PlanData, rename: Rename) -> PlanData:
    return replace(
        plan,
        entries=tuple(_entry(entry, rename) for entry in plan.entries),
        edits=tuple(replace(edit, name=rename(edit.name)) for edit in plan.edits),
        settings=tuple(replace(item, path=rename(item.path)) for item in plan.settings),
        layers={rename(path): slopes for path, slopes in plan.layers.items()},
        replaced={rename(path): value for path, value in plan.replaced.items()},
        put_back=tuple(_edge(edge, rename) for edge in plan.put_back),
    )


def _entry(entry: Entry, rename: Rename) -> Entry:
    bindings = []
    for binding in entry.bindings:
        silenced = None if binding.silenced is None else rename(binding.silenced)
        source = _call(binding.source, rename)
        call = _call(binding.call, rename)
        bindings.append(Binding(rename(binding.layer), source, call, silenced))
    return replace(
        entry,
        site=rename(entry.site),
        path=rename(entry.path),
        producers=tuple(map(rename, entry.producers)),
        consumers=tuple(map(rename, entry.consumers)),
        call=None if entry.call is None else _call(entry.call, rename),
        bindings=tuple(bindings),
    )


def _edge(edge: PutBack, rename: Rename) -> PutBack:
    return replace(
        edge,
        owner=rename(edge.owner),
        sites=tuple(map(rename, edge.sites)),
        call=_call(edge.call, rename),
    )


def _call(call: CallSite, rename: Rename) -> CallSite:
    return replace(
        call,
        owner=rename(call.owner),
        module=None if call.module is None else rename(call.module),
    )
