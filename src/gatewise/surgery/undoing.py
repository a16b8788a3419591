"""Take swaps back: what comes back, and what of trained weights can be kept."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError, LostTrainingWarning, warn_caller
from gatewise.graph import one_at_a_time
from gatewise.surgery.applying import find_record, forget_record
from gatewise.surgery.planning import find_swap
from gatewise.surgery.rewrite import (
    LoadOriginal,
    SwapRecord,
    check_carried,
    drops,
    folded,
    give_back,
    held,
    state_tensors,
)
from gatewise.surgery.saving import mark_parts
from gatewise.words import joined

WEIGHTS = ("trained", "original")


@one_at_a_time
def undo(model: nn.Module, *, weights: str | None = None, optimizer: Any = None) -> nn.Module:
    """Take back the last swap of ``model``, in place.

    If no weight has changed since the swap, the model is exactly that of before the swap. If
    weights have changed, for example by training, say which ones the model shall have:

    - ``"trained"``: the weights of now. Entries that the swap added are left out, and so are the
      parameters of units. A :class:`~gatewise.errors.LostTrainingWarning` says what was left out
      and that the function is another one. Where a swap to half the width dropped filters, they
      come back as the negatives of their partners, if that keeps the function: ``ReLU(-h)`` is
      what CReLU computed.
    - ``"original"``: the weights of before the swap. Weights that the swap did not replace were
      trained in place. Copies of them are kept if they are at most 64 MB together; otherwise this
      is an error.

    After several swaps, each call takes back one of them.

    Args:
        model: what :func:`gatewise.swap` returned, or a copy of it.
        weights: ``"trained"`` or ``"original"``. It is required if weights have changed.
        optimizer: an optimizer that the swap carried over. Its groups and the state of replaced
            weights are restored.

    Raises:
        ArgumentError: weights have changed and ``weights`` is not given, or the original weights
            are lost. The model is as it was.
    """
    record = find_record(model)
    if optimizer is not None:
        check_carried(optimizer, model)
    changed = record.weights.changed(model)
    _check_choice(record, weights, changed)
    values: dict[str, Tensor] = {}
    left_out: list[str] = []
    if (changed or record.weights.loaded) and weights == "trained":
        values, left_out = _trained(model, record, changed)
    elif changed:
        copies = record.weights.copies
        values = {name: copies[name] for name in changed if name in copies}
    _take_back(model, record)
    _write(model, values)
    if optimizer is not None:
        give_back(optimizer)
    if left_out:
        warn_caller(
            f"undo: the model no longer computes the same function. Left out: {joined(left_out)}.",
            LostTrainingWarning,
        )
    return model


def _check_choice(record: SwapRecord, weights: str | None, changed: list[str]) -> None:
    """An error, if it is not clear which weights the model shall have, or if they are lost."""
    if weights is not None and weights not in WEIGHTS:
        raise ArgumentError("undo: unknown choice", got=weights, allowed=", ".join(WEIGHTS))
    if record.weights.loaded:
        _check_loaded(record, weights)
        return
    if not changed:
        return
    old = [name for name in changed if name in record.weights.replaced]
    shared = [name for name in changed if name not in record.weights.replaced]
    if weights is None:
        raise ArgumentError(
            f"undo: {len(changed)} weights have changed since the swap. The values of before are "
            f"kept for those that the swap replaced or added ({joined(old, 4)}), and "
            f"the others were trained in place ({joined(shared, 4)})",
            fix='undo(model, weights="trained") or undo(model, weights="original")',
        )
    lost = record.weights.lost(changed)
    if weights == "original" and lost:
        raise ArgumentError(
            f"undo: the original values of {len(lost)} weights are lost. They were trained in "
            "place, and are too large for a copy to be kept",
            got=joined(lost, 4),
            fix='undo(model, weights="trained") and load a checkpoint of the original',
        )
    if weights == "trained" and record.plan is None and old:
        raise ArgumentError(
            "undo: trained weights of merged or orthogonalized layers cannot be taken back",
            got=joined(old, 4),
            fix='undo(model, weights="original")',
        )


def _check_loaded(record: SwapRecord, weights: str | None) -> None:
    """An error, if weights of before the swap are needed. They are not in the folder."""
    missing = []
    for change in record.changes:
        name = f"{change.path}.{change.name}".lstrip(".")
        if isinstance(change.old, nn.Module):
            tensors = change.old.state_dict(keep_vars=True)
            missing += [f"{name}.{own}" for own, value in tensors.items() if value.is_meta]
        elif isinstance(change.old, Tensor) and record.signs.get(name) is None:
            edits = [edit for edit in record.plan.edits if edit.name == name]
            if drops(change.old, tuple(edits)):
                missing.append(name)
    if weights != "trained" or missing:
        raise ArgumentError(
            "undo: the weights were loaded after the swap, and those of before the swap are not in "
            "the folder",
            got=f"weights={weights!r}" if not missing else joined(missing, 4),
            fix="load the original model"
            if missing
            else 'undo(model, weights="trained") keeps the weights that were loaded',
        )


def _trained(
    model: nn.Module, record: SwapRecord, changed: list[str]
) -> tuple[dict[str, Tensor], list[str]]:
    """The trained values that the tensors of before get, and what has no place there."""
    hook = LoadOriginal.of(model)
    step = hook.steps[-1] if hook else None
    values: dict[str, Tensor] = {}
    left_out: list[str] = []
    accounted: set[str] = set()
    for change in record.changes:
        name = f"{change.path}.{change.name}".lstrip(".")
        edits = step.edits.get(name, ()) if step else ()
        if change.kind not in ("parameter", "buffer") or not edits:
            continue
        now = held(model.get_submodule(change.path), change.name, change.kind)
        values[name], lossy = folded(now, change.old, edits, record.signs.get(name))
        accounted.add(name)
        if lossy:
            left_out.append(f"new entries of {name}")
    for name in changed:
        if name in record.weights.replaced and name not in accounted:
            left_out.append(name)
    return values, left_out


def _take_back(model: nn.Module, record: SwapRecord) -> None:
    record.calls.restore(model)
    for change in reversed(record.changes):
        change.take_back(model)
    for name in record.units:
        find_swap(name).uninstall(model, record.level)
    hook = LoadOriginal.of(model)
    steps = hook.steps if hook else ()
    forget_record(model, record.previous, steps[:-1] if record.units else steps)
    mark_parts(model)


@torch.no_grad()
def _write(model: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Copy values into the tensors themselves, which an optimizer may hold."""
    tensors = state_tensors(model)
    for name, value in values.items():
        tensor = tensors.get(name)
        if tensor is None:
            continue
        if not tensor.is_meta:
            tensor.copy_(value)
            continue
        path, _, own_name = name.rpartition(".")
        home = model.get_submodule(path)
        if own_name in home._parameters:
            home._parameters[own_name] = nn.Parameter(value.clone(), tensor.requires_grad)
        else:
            home._buffers[own_name] = value.clone()
