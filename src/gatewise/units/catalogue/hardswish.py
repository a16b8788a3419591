"""Hardswish: x times a clipped line."""

import torch
from torch import Tensor
from torch.nn import functional

from gatewise.units.contract import (
    RECTIFIED,
    UnitModule,
    check_input,
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
    return functional.hardswish(check_input("hardswish", x))


@unit(
    name="hardswish",
    title="Hard swish",
    family="smooth",
    on="x > 0",
    function=hardswish,
    formula=r"x\,\min(\max(x + 3, 0), 6) / 6",
    paper="Howard et al., 2019 (arXiv:1905.02244)",
    reference=lambda x: torch.where(x > -3, x * ((x + 3) / 6).clamp(max=1), 0 * x),
    limits=RECTIFIED,
    kinks={-3.0: 0.0, 3.0: 1.0},
    largest=5e37,
    error=error_bounds(float32=promise(4, 2**-22)),
)
class Hardswish(UnitModule):
    """Module form of :func:`hardswish`."""

    expression = staticmethod(functional.hardswish)
    fusable = False
