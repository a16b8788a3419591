"""Hardswish: x times a clipped line."""

import math

import torch
from torch import Tensor

from gatewise.units.contract import (
    Limits,
    UnitModule,
    at_least,
    at_most,
    check_input,
    elementwise,
    error_bounds,
    promise,
    unit,
)


def hardswish(x: Tensor) -> Tensor:
    r"""Return ``x`` times ``x / 6 + 1/2`` clipped to the interval from 0 to 1.

    .. math:: \mathrm{hardswish}(x) = x\,\min(\max(x + 3, 0), 6) / 6

    The derivative is 0 at -3 and 1 at 3, as in torch.

    Args:
        x: the input, a real floating point tensor.

    Shape: ``(*) -> (*)``.

    Howard et al., 2019, "Searching for MobileNetV3", arXiv:1905.02244.
    """
    return elementwise(_plain, check_input("hardswish", x))


def _plain(w: Tensor) -> Tensor:
    inner = at_least(at_most(w, 3.0), -3.0)
    middle = inner * ((inner + 3.0) / 6.0)
    return torch.where(w <= -3, 0.0, torch.where(w >= 3, w, middle))


@unit(
    name="hardswish",
    title="Hard swish",
    family="smooth",
    on="x > 0",
    function=hardswish,
    formula=r"x\,\min(\max(x + 3, 0), 6) / 6",
    paper="Howard et al., 2019 (arXiv:1905.02244)",
    reference=lambda x: torch.where(x > -3, x * ((x + 3) / 6).clamp(max=1), 0 * x),
    limits=Limits(minus=(0.0,), plus=(math.inf,)),
    kinks={-3.0: 0.0, 3.0: 1.0},
    error=error_bounds(half=promise(1, 2**-24), float32=promise(4, 2**-22)),
)
class Hardswish(UnitModule):
    """Module form of :func:`hardswish`."""

    def __init__(self) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return hardswish(x)
