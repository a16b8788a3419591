"""Checkpoints of the original model load into the changed one."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.surgery.propagate.edits import Edit, edited


class LoadOriginal:
    """A hook before ``load_state_dict``.

    Tensors of the original model's shapes are changed as its parameters were.

    New checkpoints pass untouched. It is a class of this module, so that a model that has it can be
    pickled and copied.
    """

    def __init__(
        self,
        edits: Mapping[str, tuple[Edit, ...]],
        shapes: Mapping[str, tuple[int, ...]],
        slopes: Mapping[str, tuple[float, ...]],
        gone: tuple[str, ...],
        added: tuple[str, ...],
    ) -> None:
        self.edits, self.shapes, self.slopes, self.gone, self.added = (
            edits,
            shapes,
            slopes,
            gone,
            added,
        )

    def __call__(self, module: nn.Module, state: dict[str, Any], prefix: str, *args: Any) -> None:
        """Change ``state``, torch's own copy of what is loaded, where it is the original model's."""
        if not self._is_original(state, prefix):
            return
        for name, edits in self.edits.items():
            key = prefix + name
            if isinstance(state.get(key), Tensor) and tuple(state[key].shape) == self.shapes[name]:
                state[key] = edited(state[key], edits)
        for path, slopes in self.slopes.items():
            if isinstance(weight := state.get(f"{prefix}{path}.weight"), Tensor):
                state.setdefault(f"{prefix}{path}.weight_neg", negative_weight(weight, slopes))
        for name in self.gone:
            state.pop(prefix + name, None)
        current = module.state_dict()
        for (
            name
        ) in self.added:  # a unit's own numbers, which the original does not have, stay as they are
            state.setdefault(prefix + name, current[name])

    def _is_original(self, state: Mapping[str, Any], prefix: str) -> bool:
        old = [name for name in self.edits if _shape(state.get(prefix + name)) == self.shapes[name]]
        lacks = [f"{path}.weight_neg" for path in self.slopes] + list(self.added)
        return (
            bool(old)
            or any(prefix + name not in state for name in lacks)
            or any(prefix + n in state for n in self.gone)
        )


def negative_weight(weight: Tensor, slopes: tuple[float, ...]) -> Tensor:
    """The weight for negative inputs: each input's column times its slope.

    Grouped layers see a part of the inputs.

    ``weight`` is ``(out, in / groups, ...)``, ``slopes`` has one number for each of the layer's
    inputs.
    """
    columns, inputs = weight.shape[1], len(slopes)
    scale = torch.tensor(slopes, dtype=weight.dtype, device=weight.device).view(
        inputs // columns, 1, columns
    )
    grouped = weight.detach().reshape(inputs // columns, -1, columns, *weight.shape[2:])
    return (grouped * scale.reshape(*scale.shape, *(1,) * (weight.dim() - 2))).reshape(weight.shape)


def _shape(value: Any) -> tuple[int, ...] | None:
    return tuple(value.shape) if isinstance(value, Tensor) else None
