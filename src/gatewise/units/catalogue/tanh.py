"""Tanh: the hyperbolic tangent."""

import torch
from torch import Tensor

from gatewise.units.contract import (
    Limits,
    UnitModule,
    check_input,
    error_bounds,
    in_compute_dtype,
    promise,
    unit,
)


def tanh(x: Tensor) -> Tensor:
    r"""Return the hyperbolic tangent.

    .. math:: \tanh(x) = \frac{e^x - e^{-x}}{e^x + e^{-x}}

    Args:
        x: the input, a real floating point tensor.

    Shape: ``(*) -> (*)``.

    LeCun et al., 1998, "Efficient BackProp".
    """
    return in_compute_dtype(torch.tanh, check_input("tanh", x))


def _reference(x: Tensor) -> Tensor:
    growth = torch.expm1(2 * x.clamp(-30, 30))  # at 30 the result is 1 to 26 digits
    return growth / (growth + 2)


@unit(
    name="tanh",
    title="Hyperbolic tangent",
    family="smooth",
    on="x > 0",
    function=tanh,
    formula=r"\tanh(x)",
    paper="LeCun et al., 1998 (Neural Networks: Tricks of the Trade)",
    reference=_reference,
    limits=Limits(minus=(-1.0,), plus=(1.0,)),
    error=error_bounds(float32=promise(4, back_absolute=2**-22)),
)
class Tanh(UnitModule):
    """Module form of :func:`tanh`."""

    expression = staticmethod(torch.tanh)
    fusable = False
