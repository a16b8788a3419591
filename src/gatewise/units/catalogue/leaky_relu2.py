"""LeakyReLU2: the square of a leaky rectifier."""

import math

from torch import Tensor
from torch.nn import functional

from gatewise.checks import check_number
from gatewise.units.contract import (
    Limits,
    UnitModule,
    check_input,
    error_bounds,
    in_compute_dtype,
    promise,
    unit,
)


def leaky_relu2(x: Tensor, slope: float = 0.5) -> Tensor:
    r"""Return the square of a leaky rectifier.

    .. math:: f(x) = (\max(x, 0) + a \min(x, 0))^2

    where :math:`a` is ``slope``. The result is never negative and falls for negative inputs: the
    sign of the input is lost. The derivative is continuous.

    Args:
        x: the input, a real floating point tensor.
        slope: the slope for negative inputs before the square.

    Shape: ``(*) -> (*)``.

    Squared leaky rectifiers come from speed runs of small language models, without a paper; So et
    al., 2021, arXiv:2109.08668, square the plain rectifier.
    """
    slope = check_number("leaky_relu2", "slope", slope)
    return in_compute_dtype(_leaky_relu2, check_input("leaky_relu2", x), slope)


def _leaky_relu2(x: Tensor, slope: float) -> Tensor:
    bent = functional.leaky_relu(x, slope)
    return bent * bent


@unit(
    name="leaky_relu2",
    title="Squared leaky rectified linear unit",
    family="smooth",
    on="x > 0",
    function=leaky_relu2,
    formula=r"(\max(x, 0) + a\,\min(x, 0))^2",
    paper="speed runs of small language models, 2026",
    reference=lambda x, slope=0.5: (x.clamp(min=0) + slope * x.clamp(max=0)).square(),
    limits=lambda slope=0.5: Limits(minus=(math.inf if slope else 0.0,), plus=(math.inf,)),
    error=error_bounds(float32=promise(4)),
    samples=({}, {"slope": 0.1}),
    note="Not monotone: -2 and 1 have the same value at the default slope.",
)
class LeakyReLU2(UnitModule):
    """Module form of :func:`leaky_relu2`.

    Args:
        slope: the slope for negative inputs before the square.
    """

    expression = staticmethod(_leaky_relu2)
