"""Activations that are put back before readers that cannot apply them.

When phase selective layers take over an activation, all its readers receive the activation's input.
Readers that are not such layers (an addition, a mean, a norm) must still read the activation's
output, so their calls are rewritten to apply the activation first.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.surgery.calls import CallSite
from gatewise.units import LeafModule


class SlopedReLU(LeafModule):
    """A rectifier with a fixed slope for negative inputs, one for each channel along one dimension.

    ``slopes`` has as many dimensions as the input and size 1 along all but one. It is a buffer that
    is not in the state dict. A channel with slope 1 passes unchanged.
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
    """One call that applies an activation to its operand again.

    ``op`` is the operator that is called, ``owner`` the path of the module whose method calls it,
    ``sites`` the names of the sites whose activation it is. ``slopes`` has one slope for each
    channel of the operand, and ``shape`` is the shape in which they broadcast to the operand.
    """

    op: str
    owner: str
    sites: tuple[str, ...]
    call: CallSite
    slopes: tuple[float, ...]
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if math.prod(self.shape) != len(self.slopes):
            raise ValueError(f"{len(self.slopes)} slopes for the shape {self.shape}")

    def __str__(self) -> str:
        return f"{self.op} in {self.owner or '(model)'} reads {', '.join(self.sites)}"

    def unit(self, like: Tensor | None) -> nn.Module:
        """The activation module, with the dtype and device of ``like``."""
        if len(set(self.slopes)) > 1:
            place: dict[str, Any] = {"device": "cpu"}
            if like is not None:
                # The slopes are not in the state dict: on the meta device they would be lost.
                place = {"device": "cpu" if like.is_meta else like.device, "dtype": like.dtype}
            return SlopedReLU(torch.tensor(self.slopes, **place).view(self.shape))
        return nn.LeakyReLU(self.slopes[0]) if self.slopes[0] else nn.ReLU()
