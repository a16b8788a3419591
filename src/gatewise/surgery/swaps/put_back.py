"""Put an activation back where something reads it that cannot take it over, and nowhere else.

When phase selective layers take over an activation, all its readers are given what it was given.
Those that are no such layers (an addition, a mean, a norm) read through the activation again: their
calls are rewritten.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.surgery.calls.call_site import CallSite


class SlopedReLU(nn.Module):
    """A rectifier with a fixed slope for negative inputs, one for each channel along one dimension.

    ``slopes`` has as many dimensions as the input and is of size 1 along all but that one. It is no
    parameter and not in the state dict: a channel whose slope is 1 belongs to another tensor, and
    is let through.
    """

    slopes: Tensor

    def __init__(self, slopes: Tensor) -> None:
        super().__init__()
        self.register_buffer("slopes", slopes, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 0, x, x * self.slopes)

    def extra_repr(self) -> str:
        return f"slopes={tuple(self.slopes.shape)}"


@dataclass(frozen=True)
class PutBack:
    """One call before which an activation is put back.

    Where it stands, and the slopes of what it reads there.
    """

    op: str
    owner: str  # the module whose method makes the call
    sites: tuple[str, ...]  # whose activations they are
    call: Mapping[str, Any]
    slopes: tuple[float, ...]
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.op} in {self.owner or '(model)'} reads {', '.join(self.sites)}"

    def unit(self, like: Tensor | None) -> nn.Module:
        """The activation, in the type and on the device of ``like``."""
        if len(set(self.slopes)) > 1:
            place = {} if like is None else {"device": like.device, "dtype": like.dtype}
            return SlopedReLU(torch.tensor(self.slopes, **place).view(self.shape))
        return nn.LeakyReLU(self.slopes[0]) if self.slopes[0] else nn.ReLU()

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "PutBack":
        """The one that ``dataclasses.asdict`` wrote, JSON's lists allowed."""
        CallSite.from_dict(value["call"])  # an error, if it is none
        made: dict[str, Any] = {
            name: tuple(each) if isinstance(each, list) else each for name, each in value.items()
        }
        if math.prod(made["shape"]) != len(made["slopes"]):
            raise ValueError("slopes of another shape")
        return cls(**made)
