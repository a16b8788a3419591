"""CReLU: a rectifier that keeps both halves of its input."""

import math
from fractions import Fraction

import torch
from torch import Tensor

from gatewise.units.contract import (
    EXACT,
    Limits,
    UnitModule,
    check_input,
    in_compute_dtype,
    resolve_dim,
    unit,
)


def crelu(x: Tensor, dim: int = 1) -> Tensor:
    r"""Concatenate the positive and the negative part of ``x`` along ``dim``.

    .. math:: \mathrm{CReLU}(x) = [\,x^+,\; (-x)^+\,], \qquad x^+ = \max(x, 0)

    No information is lost: the first half minus the second half is ``x``, and the norm is that of
    ``x``. The derivative at 0 is 0 in both halves.

    Args:
        x: the input, a real floating point tensor.
        dim: the dimension along which both parts are concatenated.

    Shape: ``(*, C, *) -> (*, 2C, *)``.

    Shang et al., 2016, "Understanding and Improving Convolutional Neural Networks via Concatenated
    Rectified Linear Units", arXiv:1603.05201.

    >>> crelu(torch.tensor([[2.0, -3.0]]))
    tensor([[2., 0., 0., 3.]])
    """
    axis = resolve_dim("crelu", check_input("crelu", x), dim)
    if torch.compiler.is_dynamo_compiling():
        return in_compute_dtype(_compiled_crelu, x, axis)
    return torch.cat((x.relu(), x.neg().relu()), axis)


def _compiled_crelu(x: Tensor, axis: int) -> Tensor:
    """Return CReLU without the masks of booleans that make compiled rectifiers slow on a CPU.

    The larger one of ``x`` and the smallest positive number, minus that number, has derivative 0
    at 0. The number is lost in any other one but its neighbours.
    """
    least = x.new_full((), torch.finfo(x.dtype).smallest_normal * torch.finfo(x.dtype).eps)
    parts = (torch.maximum(x, least) - least, torch.maximum(-x, least) - least)
    return torch.cat(parts, axis)


@unit(
    name="crelu",
    title="Concatenated rectified linear unit",
    family="max-affine",
    on="x > 0, x < 0",
    function=crelu,
    formula=r"[\,\max(x, 0),\ \max(-x, 0)\,]",
    paper="Shang et al., 2016 (arXiv:1603.05201)",
    studied_in=("crelu", "psc"),
    reference=lambda x, dim=1: torch.cat(
        (torch.where(x > 0, x, 0 * x), torch.where(x < 0, -x, 0 * x)), dim
    ),
    limits=Limits(minus=(0.0, math.inf), plus=(math.inf, 0.0)),
    channel_ratio=Fraction(2),
    kinks={0.0: 0.0},
    spans={
        "relu": (1.0, 0.0),
        "identity": (1.0, -1.0),
        "abs": (1.0, 1.0),
    },
    error=EXACT,
    samples=({}, {"dim": -1}),
)
class CReLU(UnitModule):
    """Module form of :func:`crelu`.

    Args:
        dim: the dimension along which both parts are concatenated.
    """

    dim: int

    def forward(self, x: Tensor) -> Tensor:
        if torch.compiler.is_dynamo_compiling() or not -x.dim() <= self.dim < x.dim():
            return crelu(x, self.dim)
        return torch.cat((x.relu(), x.neg().relu()), self.dim)
