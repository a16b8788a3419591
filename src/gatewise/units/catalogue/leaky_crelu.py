"""Leaky CReLU: both phases as channels, each with a small slope on its other side."""

import math
from fractions import Fraction

import torch
from torch import Tensor, nn

from gatewise.checks import check_number
from gatewise.units.contract import (
    Bound,
    Limits,
    Promise,
    UnitModule,
    check_input,
    resolve_dim,
    unit,
)


def leaky_crelu(x: Tensor, slope: float = 0.01, dim: int = 1) -> Tensor:
    r"""Concatenate the leaky ReLU of ``x`` and that of ``-x`` along ``dim``.

    .. math:: [\,\max(x, 0) + a \min(x, 0),\; \max(-x, 0) + a \min(-x, 0)\,]

    where :math:`a` is ``slope``. With ``slope=0`` it is CReLU. The first half minus the second half
    is :math:`(1 + a) x`. The derivative at 0 is ``slope`` in the first half and ``-slope`` in the
    second.

    Args:
        x: the input, a real floating point tensor.
        slope: the slope on the other side of each half.
        dim: the dimension along which both parts are concatenated.

    Shape: ``(*, C, *) -> (*, 2C, *)``.

    Shang et al., 2016, "Understanding and Improving Convolutional Neural Networks via Concatenated
    Rectified Linear Units", arXiv:1603.05201, with the leaky ReLU of Maas, Hannun and Ng, 2013.

    >>> leaky_crelu(torch.tensor([[2.0, -4.0]]), 0.25)
    tensor([[ 2.0000, -1.0000, -0.5000,  4.0000]])
    """
    axis = resolve_dim("leaky_crelu", check_input("leaky_crelu", x), dim)
    slope = check_number("leaky_crelu", "slope", slope)
    leaky = nn.functional.leaky_relu
    return torch.cat((leaky(x, slope), leaky(x.neg(), slope)), axis)


def _limits(slope: float = 0.01, dim: int = 1) -> Limits:
    far = -math.inf * slope if slope else 0.0
    return Limits(minus=(far, math.inf), plus=(math.inf, far))


def _leaky(x: Tensor, slope: float) -> Tensor:
    """The slow form in float64."""
    return torch.where(x > 0, x, slope * x if slope else 0 * x.clamp(min=0))


def _spans(slope: float = 0.01, dim: int = 1) -> dict[str, tuple[float, float]]:
    """CReLU's spans at slope 0; else the identity, up to a factor that is not a whole number."""
    if slope == 0.0:
        return {"relu": (1.0, 0.0), "identity": (1.0, -1.0), "abs": (1.0, 1.0)}
    return {}


@unit(
    name="leaky_crelu",
    title="Concatenated leaky rectified linear unit",
    family="max-affine",
    on="x > 0, x < 0",
    function=leaky_crelu,
    formula=r"[\,\max(x, 0) + a\,\min(x, 0),\ \max(-x, 0) + a\,\min(-x, 0)\,]",
    paper="Shang et al., 2016 (arXiv:1603.05201), with the leaky ReLU of Maas et al., 2013",
    studied_in=("crelu",),
    reference=lambda x, slope=0.01, dim=1: torch.cat((_leaky(x, slope), _leaky(-x, slope)), dim),
    limits=_limits,
    channel_ratio=Fraction(2),
    kinks={0.0: 0.0},
    spans=_spans,
    # One rounding of the slope to float32 and one of the product.
    error={
        "float16": Promise(Bound(1), Bound(1)),
        "bfloat16": Promise(Bound(1), Bound(1)),
        "float32": Promise(Bound(1), Bound(1)),
    },
    samples=({}, {"slope": 0.25}, {"slope": 0.0}, {"dim": -1}),
)
class LeakyCReLU(UnitModule):
    """Module form of :func:`leaky_crelu`.

    Args:
        slope: the slope on the other side of each half.
        dim: the dimension along which both parts are concatenated.
    """

    slope: float
    dim: int

    def forward(self, x: Tensor) -> Tensor:
        return leaky_crelu(x, self.slope, self.dim)
