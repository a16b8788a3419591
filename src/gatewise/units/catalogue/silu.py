"""SiLU: the soft vector-quantisation form of ReLU."""

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
    sigmoid,
    unit,
)


def silu(x: Tensor) -> Tensor:
    r"""Return ``x`` times its logistic function.

    .. math:: \mathrm{SiLU}(x) = x\,\sigma(x) = \frac{x}{1 + e^{-x}}

    The limit at minus infinity is 0. Equal to ``beta_vq(x, "relu", beta=0.5)``.

    Args:
        x: the input, a real floating point tensor.

    Shape: ``(*) -> (*)``.

    Elfwing, Uchibe and Doya, 2018, "Sigmoid-Weighted Linear Units", arXiv:1702.03118.
    """
    return elementwise(_plain, check_input("silu", x))


def _plain(w: Tensor) -> Tensor:
    return self_gated(w, sigmoid)


def _values(x: Tensor, out: Tensor) -> None:
    """Write torch's own value, which is right but at minus infinity."""
    torch.clamp(x, min=torch.finfo(x.dtype).min, out=out)
    torch.nn.functional.silu(out, inplace=True)


def _slopes(above: Tensor, x: Tensor, out: Tensor) -> None:
    """Write the gradient to ``x``.

    Torch's own derivative loses digits above 0, so it is taken at ``-abs(x)``: the derivatives at
    ``x`` and ``-x`` add to 1.
    """
    low = x.abs().clamp_(max=torch.finfo(x.dtype).max).neg_()
    slope = torch.ops.aten.silu_backward(torch.ones_like(low), low)
    torch.mul(torch.where(x > 0, 1.0 - slope, slope), above, out=out)


FEW_PASSES[_plain] = FewPasses(_values, _slopes)


@unit(
    name="silu",
    title="Sigmoid linear unit",
    family="soft",
    on="x > 0",
    function=silu,
    formula=r"x\,\sigma(x)",
    paper="Elfwing, Uchibe and Doya, 2018 (arXiv:1702.03118)",
    studied_in=("maso", "iieu"),
    reference=lambda x: x * torch.special.expit(x),
    limits=Limits(minus=(0.0,), plus=(math.inf,)),
    error=error_bounds(
        half=promise(1, 2**-24),
        float32=promise(4, 2**-24, back_absolute=2**-23),
    ),
)
class SiLU(UnitModule):
    """Module form of :func:`silu`."""

    def __init__(self) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return silu(x)
