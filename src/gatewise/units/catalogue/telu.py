"""TeLU: a gate that is the hyperbolic tangent of an exponential."""

import torch
from torch import Tensor

from gatewise.units.contract import (
    RECTIFIED,
    UnitModule,
    check_input,
    error_bounds,
    in_compute_dtype,
    promise,
    unit,
)


def telu(x: Tensor) -> Tensor:
    r"""Return ``x`` times the hyperbolic tangent of its exponential.

    .. math:: \mathrm{TeLU}(x) = x \tanh(e^x)

    The limit at minus infinity is 0. The exponential is taken of at most 10, where the gate is 1.

    Args:
        x: the input, a real floating point tensor.

    Shape: ``(*) -> (*)``.

    Fernandez and Mali, 2024, "TeLU Activation Function for Fast and Stable Deep Learning",
    arXiv:2412.20269.
    """
    return in_compute_dtype(_telu, check_input("telu", x))


def _telu(x: Tensor) -> Tensor:
    # Beyond 10 the gate is 1, and from 89 on the derivative of the exponential is infinite.
    return x * torch.tanh(torch.exp(torch.clamp(x, max=10.0)))


@unit(
    name="telu",
    title="Hyperbolic tangent exponential linear unit",
    family="smooth",
    on="x > 0",
    function=telu,
    formula=r"x \tanh(e^x)",
    paper="Fernandez and Mali, 2024 (arXiv:2412.20269)",
    reference=lambda x: x * torch.tanh(torch.exp(x.clamp(max=30))),
    limits=RECTIFIED,
    error=error_bounds(float32=promise(4, 2**-24, back_absolute=2**-19)),
)
class TeLU(UnitModule):
    """Module form of :func:`telu`."""

    expression = staticmethod(_telu)
