"""GELU: x times the chance that a standard normal is below it."""

import math

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


def gelu(x: Tensor) -> Tensor:
    r"""Return ``x`` times the normal distribution function, in the exact (erf) form.

    .. math:: \mathrm{GELU}(x) = x\,\Phi(x), \qquad
        \Phi(x) = \tfrac{1}{2}\,\mathrm{erfc}(-x / \sqrt{2})

    It is computed with ``erfc``, because ``1 + erf`` cancels for negative ``x`` and loses the tail.

    Args:
        x: the input, a real floating point tensor.

    Shape: ``(*) -> (*)``.

    Hendrycks and Gimpel, 2016, "Gaussian Error Linear Units", arXiv:1606.08415.
    """
    return functional.gelu(check_input("gelu", x))


@unit(
    name="gelu",
    title="Gaussian error linear unit",
    family="smooth",
    on="x > 0",
    function=gelu,
    formula=r"x\,\Phi(x) = \frac{x}{2}\,\mathrm{erfc}(-x / \sqrt{2})",
    paper="Hendrycks and Gimpel, 2016 (arXiv:1606.08415)",
    studied_in=("iieu",),
    reference=lambda x: 0.5 * x * torch.erfc(-x * math.sqrt(0.5)),
    limits=RECTIFIED,
    largest=1e38,
    error=error_bounds(
        half=promise(1, 2**-21),
        float32=promise(4, 2**-19, back_absolute=2**-21),
    ),
)
class GELU(UnitModule):
    """Module form of :func:`gelu`."""

    expression = staticmethod(functional.gelu)
    fusable = False
