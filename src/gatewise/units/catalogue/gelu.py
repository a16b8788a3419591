"""GELU: x times the chance that a standard normal is below it."""

import math

import torch
from torch import Tensor

from gatewise.units.contract import (
    FEW_PASSES,
    FewPasses,
    Limits,
    UnitModule,
    check_input,
    elementwise,
    error_bounds,
    promise,
    self_gated,
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
    return elementwise(_plain, check_input("gelu", x))


def normal_gate(z: Tensor) -> Tensor:
    """Return the normal distribution function, by torch's operations."""
    return 0.5 * torch.erfc(-math.sqrt(0.5) * z)


def _plain(w: Tensor) -> Tensor:
    return self_gated(w, normal_gate)


def _values(x: Tensor, out: Tensor) -> None:
    """Write the value. Torch's own loses digits below -0.5, because it adds 1 to ``erf``.

    Below -20 the gate is 0, and so is the value, in all digits.
    """
    torch.clamp(x, min=-20.0, out=out)
    gate = torch.mul(out, -math.sqrt(0.5)).erfc_().mul_(0.5)
    out.mul_(gate)


FEW_PASSES[_plain] = FewPasses(_values)


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
    limits=Limits(minus=(0.0,), plus=(math.inf,)),
    error=error_bounds(
        half=promise(1, 2**-24),
        float32=promise(4, 2**-24, back_absolute=2**-23),
    ),
)
class GELU(UnitModule):
    """Module form of :func:`gelu`."""

    def __init__(self) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return gelu(x)
