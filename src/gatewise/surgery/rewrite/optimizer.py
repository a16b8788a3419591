"""Carry an optimiser over a swap.

Its groups hold the new parameters, its state is edited as they were.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from gatewise.errors import ArgumentError
from gatewise.surgery.propagate.edits import Edit, edited

Parameters = dict[str, nn.Parameter]
CARRIED = (
    "_gatewise_carried"  # on an optimiser: what giving it back needs; copies of it do not have it
)


@dataclass(frozen=True)
class Carried:
    """What an optimiser held before a swap that it does not hold now."""

    groups: list[list[Tensor]]
    state: dict[Tensor, dict[str, Any]]  # of parameters that were replaced
    now: frozenset[int]  # ids of what it holds since


def check_optimizer(optimizer: Any, model: nn.Module, inplace: bool) -> None:
    """An error, if ``optimizer`` cannot be carried over.

    It must be of this model, changed in place.
    """
    if optimizer is None:
        return
    if not isinstance(optimizer, Optimizer):
        raise ArgumentError(
            "optimizer: is not a torch.optim.Optimizer", got=type(optimizer).__name__
        )
    if not inplace or not _held(optimizer) & {id(each) for each in model.parameters()}:
        raise ArgumentError(
            "optimizer: does not hold the parameters of the model that is changed",
            got=f"inplace={inplace}",
            fix="pass the model's own optimiser, and inplace=True: a copy has other parameters",
        )


def carry_over(
    optimizer: Optimizer,
    before: Parameters,
    model: nn.Module,
    edits: Mapping[str, tuple[Edit, ...]],
) -> None:
    """Put the parameters of ``model`` where those it had ``before`` were.

    New ones beside their layer's own.

    State of the size of a parameter (momenta, squares) is edited as it was, new entries 0; other
    state stays. What it held is kept for :func:`give_back`.
    """
    groups = [list(group["params"]) for group in optimizer.param_groups]
    state = dict(optimizer.state)
    after: Parameters = dict(model.named_parameters())
    present = {id(each) for each in after.values()}
    new = {before[name]: (after[name], edits.get(name, ())) for name in before if name in after}
    for group in optimizer.param_groups:
        held = list(group["params"])
        group["params"] = [
            new[each][0] if each in new else each
            for each in held
            if each in new or id(each) in present
        ]
        beside = {
            name.rpartition(".")[0]
            for name, each in before.items()
            if any(each is one for one in held)
        }
        added = [
            each
            for name, each in after.items()
            if name not in before and name.rpartition(".")[0] in beside
        ]
        group["params"] += added
    _add_homeless(optimizer, after)
    for old, (made, changes) in new.items():
        if old in optimizer.state and made is not old:
            optimizer.state[made] = _edited_state(optimizer.state.pop(old), old, changes)
    for old in [each for each in optimizer.state if id(each) not in present]:
        del optimizer.state[old]
    gone = {each: value for each, value in state.items() if each not in optimizer.state}
    vars(optimizer)[CARRIED] = Carried(groups, gone, frozenset(_held(optimizer)))


def check_carried(optimizer: Any, model: nn.Module) -> None:
    """An error, if ``optimizer`` was not carried over by the swap of ``model``."""
    carried = vars(optimizer).get(CARRIED) if isinstance(optimizer, Optimizer) else None
    if carried is None or not carried.now & {id(each) for each in model.parameters()}:
        raise ArgumentError(
            "optimizer: was not carried over when units were put into this model",
            got=type(optimizer).__name__,
            fix="pass the very optimiser that gw.swap(..., optimizer=...) was given, not a copy",
        )


def give_back(optimizer: Optimizer) -> None:
    """The parameters it had before, in the same groups, those that had been replaced with the state they had then."""
    carried: Carried = vars(optimizer).pop(CARRIED)
    for group, params in zip(
        optimizer.param_groups, carried.groups, strict=False
    ):  # groups may have been added since
        group["params"] = list(params)
    held = _held(optimizer)
    for each in [each for each in optimizer.state if id(each) not in held]:
        del optimizer.state[each]
    optimizer.state.update(carried.state)


def _held(optimizer: Optimizer) -> set[int]:
    return {id(each) for group in optimizer.param_groups for each in group["params"]}


def _add_homeless(optimizer: Optimizer, after: Parameters) -> None:
    """Parameters of units, which belong to no layer: to the first group."""
    held = _held(optimizer)
    optimizer.param_groups[0]["params"] += [
        each for each in after.values() if each.requires_grad and id(each) not in held
    ]


def _edited_state(state: dict[str, Any], old: Tensor, edits: tuple[Edit, ...]) -> dict[str, Any]:
    calm = tuple(
        replace(edit, fill="zero" if edit.fill == "fresh" else edit.fill) for edit in edits
    )
    tensors = {name: value for name, value in state.items() if isinstance(value, Tensor)}
    return state | {  # copies: counts of steps are tensors too, and go on
        name: edited(value, calm) if value.shape == old.shape else value.clone()
        for name, value in tensors.items()
    }
