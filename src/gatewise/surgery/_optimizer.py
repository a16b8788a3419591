"""Carry an optimiser over a swap: its groups hold the new parameters, its state is edited as they were."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from gatewise.errors import ArgumentError
from gatewise.surgery._edits import Edit, edited

Parameters = dict[str, nn.Parameter]


def check_optimizer(optimizer: Any, model: nn.Module, inplace: bool) -> None:
    """An error, if ``optimizer`` cannot be carried over: it must be of this model, changed in place."""
    if optimizer is None:
        return
    if not isinstance(optimizer, Optimizer):
        raise ArgumentError("optimizer: is not a torch.optim.Optimizer", got=type(optimizer).__name__)
    held = {id(each) for group in optimizer.param_groups for each in group["params"]}
    if not inplace or not held & {id(each) for each in model.parameters()}:
        raise ArgumentError(
            "optimizer: does not hold the parameters of the model that is changed",
            got=f"inplace={inplace}",
            fix="pass the model's own optimiser, and inplace=True: a copy has other parameters",
        )


def carry_over(
    optimizer: Optimizer, before: Parameters, model: nn.Module, edits: Mapping[str, tuple[Edit, ...]]
) -> None:
    """Put the parameters of ``model`` where those it had ``before`` were; new ones beside their layer's own.

    State of the size of a parameter (momenta, squares) is edited as it was, new entries 0; other state stays.
    """
    after: Parameters = dict(model.named_parameters())
    present = {id(each) for each in after.values()}
    new = {before[name]: (after[name], edits.get(name, ())) for name in before if name in after}
    for group in optimizer.param_groups:
        held = list(group["params"])
        group["params"] = [new[each][0] if each in new else each for each in held if each in new or id(each) in present]
        beside = {name.rpartition(".")[0] for name, each in before.items() if any(each is one for one in held)}
        added = [each for name, each in after.items() if name not in before and name.rpartition(".")[0] in beside]
        group["params"] += added
    _add_homeless(optimizer, after)
    for old, (made, changes) in new.items():
        if old in optimizer.state and made is not old:
            optimizer.state[made] = _edited_state(optimizer.state.pop(old), old, changes)
    for old in [each for each in optimizer.state if id(each) not in present]:
        del optimizer.state[old]


def _add_homeless(optimizer: Optimizer, after: Parameters) -> None:
    """Parameters of units, which belong to no layer: to the first group."""
    held = {id(each) for group in optimizer.param_groups for each in group["params"]}
    optimizer.param_groups[0]["params"] += [
        each for each in after.values() if each.requires_grad and id(each) not in held
    ]


def _edited_state(state: dict[str, Any], old: Tensor, edits: tuple[Edit, ...]) -> dict[str, Any]:
    calm = tuple(replace(edit, fill="zero" if edit.fill == "fresh" else edit.fill) for edit in edits)
    return {
        name: edited(value, calm) if isinstance(value, Tensor) and value.shape == old.shape else value
        for name, value in state.items()
    }
