"""Mish: x gated by the hyperbolic tangent of its softplus."""

import math

import torch
from torch import Tensor

from gatewise.units.contract import (
    FEW_PASSES,
    FewPasses,
    Limits,
    UnitModule,
    at_most,
    check_input,
    elementwise,
    error_bounds,
    promise,
    self_gated,
    unit,
)


def mish(x: Tensor) -> Tensor:
    r"""Return ``x`` times ``tanh(softplus(x))``.

    .. math:: \mathrm{Mish}(x) = x \tanh(\log(1 + e^x)) = x\,\frac{n}{n + 2}, \qquad
        n = e^x (e^x + 2)

    The second form needs no tanh and no log, and is accurate in both tails.

    Args:
        x: the input, a real floating point tensor.

    Shape: ``(*) -> (*)``.

    Misra, 2020, "Mish: A Self Regularized Non-Monotonic Activation Function", arXiv:1908.08681.
    """
    return elementwise(_plain, check_input("mish", x))


def _plain(w: Tensor) -> Tensor:
    return self_gated(w, _gate)


def _gate(z: Tensor) -> Tensor:
    """Return ``tanh(softplus(z))``.

    Above 0 it is computed as ``1 - 2 / (n + 2)``, whose derivative does not cancel. At 30 it is 1.
    """
    e = torch.exp(at_most(z, 30.0))
    n = e * (e + 2.0)
    return torch.where(z > 0, 1.0 - 2.0 / (n + 2.0), n / (n + 2.0))


def _values(x: Tensor, out: Tensor) -> None:
    """Write torch's own value, which is right but at minus infinity.

    Its derivative is not: it loses digits near 9.
    """
    torch.clamp(x, min=torch.finfo(x.dtype).min, out=out)
    torch.nn.functional.mish(out, inplace=True)


FEW_PASSES[_plain] = FewPasses(_values)


@unit(
    name="mish",
    title="Mish",
    family="smooth",
    on="x > 0",
    function=mish,
    formula=r"x\,\tanh(\log(1 + e^x))",
    paper="Misra, 2020 (arXiv:1908.08681)",
    studied_in=("iieu",),
    reference=lambda x: x * torch.tanh(torch.logaddexp(x, torch.zeros_like(x))),
    limits=Limits(minus=(0.0,), plus=(math.inf,)),
    error=error_bounds(
        half=promise(1, 2**-24),
        float32=promise(4, 2**-23),
    ),
)
class Mish(UnitModule):
    """Module form of :func:`mish`."""

    def __init__(self) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return mish(x)
