"""Carry an optimizer over a swap.

Its groups then hold the new parameters, and its state is edited as these were.
"""

import copy
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Optional

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from gatewise.errors import ArgumentError, warn_caller
from gatewise.surgery.propagate import Edit, edited

Parameters = dict[str, nn.Parameter]
CARRIED = "_gatewise_carried"  # on an optimizer, but not on copies of it: a Carried


@dataclass(frozen=True)
class Carried:
    """What an optimizer held before a swap and does not hold now.

    Attributes:
        groups: the parameters of each group.
        state: of parameters that were replaced.
        now: ids of the parameters that it holds since.
        added: the group that was added.
        previous: the same for the swap before this one.
    """

    groups: list[list[Tensor]]
    state: dict[Tensor, dict[str, Any]]
    now: frozenset[int]
    added: dict[str, Any] | None = None
    previous: Optional["Carried"] = None


def check_optimizer(optimizer: Any, model: nn.Module, inplace: bool) -> None:
    """An error, if ``optimizer`` cannot be carried over.

    It must hold parameters of ``model``, which is changed in place.
    """
    if not isinstance(optimizer, Optimizer):
        raise ArgumentError(
            "optimizer: is not a torch.optim.Optimizer", got=type(optimizer).__name__
        )
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ArgumentError(
            "optimizer: LBFGS keeps one history of all parameters together",
            got=type(optimizer).__name__,
            fix="swap without optimizer=, and make a new optimizer for the changed model",
        )
    if not inplace or not _held(optimizer) & {id(parameter) for parameter in model.parameters()}:
        raise ArgumentError(
            "optimizer: does not hold the parameters of the model that is changed",
            got=f"inplace={inplace}",
            fix="pass the model's own optimizer, and inplace=True: a copy has other parameters",
        )


def carry_over(
    optimizer: Optimizer,
    before: Parameters,
    model: nn.Module,
    edits: Mapping[str, tuple[Edit, ...]],
    units: Collection[nn.Module] = (),
) -> None:
    """Put the parameters of ``model`` where those it had ``before`` were.

    New parameters go into the group of their layer's others. The numbers of units get the options
    of the first group and no weight decay, in a group of their own if that group has a decay.
    Parameters that were not held before and that the swap did not make are not added. State of the
    size of a parameter (momenta, squares) is edited as the parameter was, with 0 for new entries.
    Other state stays. What the optimizer held is kept for :func:`give_back`.

    Args:
        optimizer: the optimizer to change.
        before: the parameters before the swap, by name.
        model: the changed model.
        edits: the edits of each parameter, by name.
        units: the units that the swap has put in.

    Raises:
        ArgumentError: the optimizer cannot take a step with the new parameters. It is as before.
    """
    groups = [list(group["params"]) for group in optimizer.param_groups]
    state = dict(optimizer.state)
    after: Parameters = dict(model.named_parameters())
    present = {id(parameter) for parameter in after.values()}
    known = {id(parameter) for parameter in before.values()}
    own = {id(value) for unit in units for value in unit.parameters() if value.dim() <= 1} - known
    new: dict[Tensor, tuple[nn.Parameter, tuple[Edit, ...]]] = {}
    for name, parameter in before.items():
        if name in after:
            new[parameter] = (after[name], edits.get(name, ()))
    for group in optimizer.param_groups:
        group["params"] = _new_group(group["params"], before, after, new, own)
    added = _add_units(optimizer, model, known, own)
    for old, (parameter, changes) in new.items():
        if old in optimizer.state and parameter is not old:
            optimizer.state[parameter] = _edited_state(optimizer.state.pop(old), old, changes)
    for old in list(optimizer.state):
        if id(old) not in present:
            del optimizer.state[old]
    removed = {old: value for old, value in state.items() if old not in optimizer.state}
    now = frozenset(_held(optimizer))
    previous = vars(optimizer).get(CARRIED)
    vars(optimizer)[CARRIED] = Carried(groups, removed, now, added, previous)
    _try_step(optimizer, now - {id(value) for group in groups for value in group})


def _new_group(
    held: list[Tensor],
    before: Parameters,
    after: Parameters,
    new: Mapping[Tensor, tuple[nn.Parameter, tuple[Edit, ...]]],
    own: Collection[int],
) -> list[Tensor]:
    """What a group holds after the swap, its layers' new parameters last, without those ``own``."""
    present = {id(parameter) for parameter in after.values()}
    params: list[Tensor] = []
    for parameter in held:
        if parameter in new and id(new[parameter][0]) not in own:
            params.append(new[parameter][0])
        elif id(parameter) in present:
            params.append(parameter)
    ids = {id(parameter) for parameter in held}
    layers = {name.rpartition(".")[0] for name, parameter in before.items() if id(parameter) in ids}
    for name, parameter in after.items():
        layer = name.rpartition(".")[0]
        if name not in before and layer in layers and id(parameter) not in own:
            params.append(parameter)
    return params


def check_carried(optimizer: Any, model: nn.Module) -> None:
    """An error, if ``optimizer`` was not carried over by the swap of ``model``."""
    carried = vars(optimizer).get(CARRIED) if isinstance(optimizer, Optimizer) else None
    if carried is None or not carried.now & {id(parameter) for parameter in model.parameters()}:
        raise ArgumentError(
            "optimizer: was not carried over when units were put into this model",
            got=type(optimizer).__name__,
            fix="pass the very optimizer that gw.swap(..., optimizer=...) received, not a copy",
        )


def give_back(optimizer: Optimizer) -> None:
    """Restore the groups of before the last swap, and the state of parameters it replaced."""
    carried: Carried = vars(optimizer).pop(CARRIED)
    if carried.previous is not None:
        vars(optimizer)[CARRIED] = carried.previous
    if carried.added is not None:
        rest = [group for group in optimizer.param_groups if group is not carried.added]
        optimizer.param_groups[:] = rest
    # groups may have been added since, so there can be more of them
    for group, params in zip(optimizer.param_groups, carried.groups, strict=False):
        group["params"] = list(params)
    held = _held(optimizer)
    for parameter in list(optimizer.state):
        if id(parameter) not in held:
            del optimizer.state[parameter]
    optimizer.state.update(carried.state)


def _held(optimizer: Optimizer) -> set[int]:
    return {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}


def _add_units(
    optimizer: Optimizer,
    model: nn.Module,
    known: Collection[int],
    own: Collection[int],
) -> dict[str, Any] | None:
    """Add the parameters of units, which belong to no layer; return the group that was added."""
    held = _held(optimizer)
    first = optimizer.param_groups[0]
    numbers: list[nn.Parameter] = []
    for parameter in model.parameters():
        if not parameter.requires_grad or id(parameter) in held or id(parameter) in known:
            continue
        if id(parameter) in own and first.get("weight_decay"):
            numbers.append(parameter)
        else:
            first["params"].append(parameter)
    if not numbers:
        return None
    if "initial_lr" in first:
        warn_caller(
            "optimizer: the units' numbers are in a new group, which the learning rate scheduler "
            "does not know. Make the scheduler anew",
            UserWarning,
        )
    options = {name: value for name, value in first.items() if name != "params"}
    optimizer.param_groups.append({**options, "params": numbers, "weight_decay": 0.0})
    return optimizer.param_groups[-1]


def _try_step(optimizer: Optimizer, new: Collection[int]) -> None:
    """Take a step with copies of the ``new`` parameters, or give the optimizer back and raise."""
    trial = copy.copy(optimizer)
    groups, state = [], defaultdict(dict)
    for group in optimizer.param_groups:
        copies = []
        for parameter in group["params"]:
            if id(parameter) in new and not parameter.is_meta:
                clone = parameter.detach().clone()
                clone.grad = torch.zeros_like(clone)
                copies.append(clone)
                if parameter in optimizer.state:
                    state[clone] = copy.deepcopy(dict(optimizer.state[parameter]))
        groups.append({**group, "params": copies})
    trial.param_groups, trial.state = groups, state
    try:
        trial.step()
    except Exception as problem:
        give_back(optimizer)
        raise ArgumentError(
            f"optimizer: {type(optimizer).__name__} cannot go on with the changed parameters "
            f"({type(problem).__name__}: {str(problem).partition(chr(10))[0]})",
            fix="swap without optimizer=, and make a new optimizer for the changed model",
        ) from problem


def _edited_state(
    state: dict[str, Any],
    old: Tensor,
    edits: tuple[Edit, ...],
) -> dict[str, Any]:
    """A copy of ``state`` (counts of steps are tensors that go on), edited as ``old`` was."""
    zeroed = []
    for edit in edits:
        zeroed.append(edit if edit.fill == "copy" else replace(edit, fill="zero"))
    copied = dict(state)
    for name, value in state.items():
        if isinstance(value, Tensor):
            copied[name] = edited(value, zeroed) if value.shape == old.shape else value.clone()
    return copied
