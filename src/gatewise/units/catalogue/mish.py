"""Mish: x gated by the hyperbolic tangent of its softplus."""

import torch
from torch import Tensor
from torch.nn import functional

from gatewise.units.contract import (
    RECTIFIED,
    UnitModule,
    check_input,
    error_bounds,
    in_compute_dtype,
    promise,
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
    return functional.mish(check_input("mish", x))


def _compiled_mish(x: Tensor) -> Tensor:
    """Return Mish in a form that compiled code computes with one exponential."""
    return in_compute_dtype(_rational_mish, x)


def _rational_mish(x: Tensor) -> Tensor:
    e = torch.exp(torch.clamp(x, max=20.0))
    n = e * (e + 2)
    return x * (n / (n + 2))


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
    limits=RECTIFIED,
    error=error_bounds(
        float32=promise(4, 2**-23, back_absolute=2**-19),
    ),
)
class Mish(UnitModule):
    """Module form of :func:`mish`."""

    expression = staticmethod(functional.mish)
    fused_function = staticmethod(_compiled_mish)
