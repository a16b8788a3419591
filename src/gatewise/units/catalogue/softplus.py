"""Softplus: the optimal value of the entropy-penalised choice between 0 and x."""

import torch
from torch import Tensor
from torch.nn import functional

from gatewise.checks import check_number
from gatewise.units.contract import (
    LINEAR_FROM,
    RECTIFIED,
    UnitModule,
    check_input,
    error_bounds,
    promise,
    unit,
)


def softplus(x: Tensor, beta: float = 1.0) -> Tensor:
    r"""Return a smooth upper bound of ReLU.

    .. math:: \mathrm{softplus}(x) = \tfrac{1}{\beta} \log(1 + e^{\beta x})

    There is no linear shortcut above a threshold, so float64 is right to its last digits. At 0 the
    value is ``log(2) / beta``. Softplus is the optimal value of the soft choice between 0 and x;
    the output of that choice is :func:`gatewise.functional.silu`.

    Args:
        x: the input, a real floating point tensor.
        beta: the steepness, positive.

    Shape: ``(*) -> (*)``.

    Dugas et al., 2001, "Incorporating Second-Order Functional Knowledge for Better Option Pricing".
    """
    check_input("softplus", x)
    beta = check_number("softplus", "beta", beta, above=0.0)
    return _softplus(x, beta)


def _softplus(x: Tensor, beta: float) -> Tensor:
    return functional.softplus(x, beta, LINEAR_FROM)


@unit(
    name="softplus",
    title="Softplus",
    family="smooth",
    on="x > 0",
    function=softplus,
    formula=r"\frac{1}{\beta}\,\log(1 + e^{\beta x})",
    paper="Dugas et al., 2001 (NIPS)",
    studied_in=("maso", "iieu"),
    reference=lambda x, beta=1.0: torch.logaddexp(beta * x, torch.zeros_like(x)) / beta,
    limits=RECTIFIED,
    error=error_bounds(
        half=promise(1),
        float32=promise(3),
    ),
    samples=({}, {"beta": 2.0}),
)
class Softplus(UnitModule):
    """Module form of :func:`softplus`.

    Args:
        beta: the steepness, positive.
    """

    expression = staticmethod(_softplus)
    fusable = False
