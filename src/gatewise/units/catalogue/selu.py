"""SELU: a scaled exponential linear unit."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from gatewise.units.contract import (
    Limits,
    UnitModule,
    check_input,
    error_bounds,
    promise,
    unit,
)

SCALE = 1.0507009873554804934193349852946
ALPHA = 1.6732632423543772848170429916717


def selu(x: Tensor) -> Tensor:
    r"""Return a scaled exponential linear unit.

    .. math:: \mathrm{SELU}(x) = \lambda\,(\max(x, 0) + \alpha\,(e^{\min(x, 0)} - 1))

    with :math:`\lambda = 1.0507009873554805` and :math:`\alpha = 1.6732632423543772`. The
    derivative at 0 is that from the left, 1.7581.

    Args:
        x: the input, a real floating point tensor.

    Shape: ``(*) -> (*)``.

    Klambauer et al., 2017, "Self-Normalizing Neural Networks", arXiv:1706.02515.
    """
    return functional.selu(check_input("selu", x))


@unit(
    name="selu",
    title="Scaled exponential linear unit",
    family="smooth",
    on="x > 0",
    function=selu,
    formula=r"\lambda\,(\max(x, 0) + \alpha\,(e^{\min(x, 0)} - 1))",
    paper="Klambauer et al., 2017 (arXiv:1706.02515)",
    reference=torch.nn.functional.selu,
    limits=Limits(minus=(-SCALE * ALPHA,), plus=(math.inf,)),
    kinks={0.0: SCALE * ALPHA},
    error=error_bounds(half=promise(1), float32=promise(3)),
    note="Keeps mean 0 and variance 1 in deep networks only with its own start values and dropout.",
)
class SELU(UnitModule):
    """Module form of :func:`selu`."""

    expression = staticmethod(functional.selu)
    fusable = False
