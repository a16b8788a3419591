"""Checkpoints of the original model load into the changed one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.surgery.propagate import Edit, edited

Shapes = Mapping[str, tuple[int, ...] | None]  # None: not a tensor


@dataclass(frozen=True)
class LoadStep:
    """How one swap changes a state dict.

    Attributes:
        before: names and shapes in the state dict before the swap.
        after: names and shapes after it.
        edits: changes of tensors, by name.
        slopes: phase selective layers by path, whose second weight is made from the first.
        renamed: tensors that a unit has under another name, such as the slopes of PReLU.
    """

    before: Shapes
    after: Shapes
    edits: Mapping[str, tuple[Edit, ...]] = field(default_factory=dict)
    slopes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)

    def apply(self, state: dict[str, Any], prefix: str, current: Mapping[str, Any]) -> None:
        """Change ``state`` as the swap changed the model.

        Tensors that the swap added get the values of ``current``, the model's own state dict.
        """
        for name, edits in self.edits.items():
            key = prefix + name
            if _shape(state.get(key)) == self.before.get(name):
                state[key] = edited(state[key], edits)
        for path, slopes in self.slopes.items():
            weight = state.get(f"{prefix}{path}.weight")
            if isinstance(weight, Tensor):
                state.setdefault(f"{prefix}{path}.weight_neg", negative_weight(weight, slopes))
        for old, new in self.renamed.items():
            value, target = state.get(prefix + old), current.get(new)
            if isinstance(value, Tensor) and isinstance(target, Tensor):
                if value.numel() in (1, target.numel()):  # one slope, or one for each channel
                    state.setdefault(prefix + new, value.flatten().expand_as(target).clone())
        for name in self.before.keys() - self.after.keys():
            state.pop(prefix + name, None)
        for name in self.after.keys() - self.before.keys():
            if name in current:  # a later swap may have removed it
                state.setdefault(prefix + name, current[name])


class LoadOriginal:
    """A hook before ``load_state_dict`` that brings older state dicts up to date.

    It holds one step for each swap. A state dict is compared with that of the original model and
    with those after each swap; the steps that it has not seen are applied. State dicts of the model
    as it is now pass unchanged. It is a class, so that a model that has it can be pickled and
    copied.
    """

    def __init__(self, steps: tuple[LoadStep, ...]) -> None:
        self.steps = steps

    def __call__(self, module: nn.Module, state: dict[str, Any], prefix: str, *args: Any) -> None:
        """Change ``state``, torch's own copy of what is loaded."""
        steps = self.steps[self._stage(state, prefix) :]
        if steps:
            current = module.state_dict()
            for step in steps:
                step.apply(state, prefix, current)

    def _stage(self, state: Mapping[str, Any], prefix: str) -> int:
        """After how many swaps ``state`` was saved: where the fewest names and shapes differ."""
        shapes = {}
        for key, value in state.items():
            if key.startswith(prefix):
                shapes[key.removeprefix(prefix)] = _shape(value)
        stages = [self.steps[0].before, *(step.after for step in self.steps)]
        differences = [_count_differences(shapes, stage) for stage in stages]
        last = len(differences) - 1
        return min(range(len(stages)), key=lambda number: (differences[number], last - number))

    @classmethod
    def of(cls, model: nn.Module) -> "LoadOriginal | None":
        """The hook that ``model`` has."""
        for hook in model._load_state_dict_pre_hooks.values():
            inside = getattr(hook, "hook", hook)
            if isinstance(inside, cls):
                return inside
        return None

    @classmethod
    def set_steps(cls, model: nn.Module, steps: tuple[LoadStep, ...]) -> None:
        """Let ``model`` have a hook with these steps, or none if there are none."""
        hooks = model._load_state_dict_pre_hooks
        for key, hook in list(hooks.items()):
            if isinstance(getattr(hook, "hook", hook), cls):
                del hooks[key]
        if steps:
            model.register_load_state_dict_pre_hook(cls(steps))


def state_shapes(model: nn.Module) -> Shapes:
    """Names and shapes in the state dict of ``model``."""
    return {name: _shape(value) for name, value in model.state_dict().items()}


def negative_weight(weight: Tensor, slopes: tuple[float, ...]) -> Tensor:
    """The weight for negative inputs: each input's column times its slope.

    Args:
        weight: ``(out, in / groups, ...)``. A grouped layer's rows see a part of the inputs.
        slopes: one for each input of the layer.
    """
    columns = weight.shape[1]
    groups = len(slopes) // columns
    scale = torch.tensor(slopes, dtype=weight.dtype, device=weight.device)
    scale = scale.view(groups, 1, columns, *(1,) * (weight.dim() - 2))
    grouped = weight.detach().reshape(groups, -1, columns, *weight.shape[2:])
    return (grouped * scale).reshape(weight.shape)


def _shape(value: Any) -> tuple[int, ...] | None:
    return tuple(value.shape) if isinstance(value, Tensor) else None


def _count_differences(shapes: Shapes, stage: Shapes) -> int:
    """How many names are in one only, or have different shapes."""
    names = shapes.keys() | stage.keys()
    missing = object()
    return sum(shapes.get(name, missing) != stage.get(name, missing) for name in names)
