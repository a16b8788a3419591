"""CELU: an exponential linear unit that is smooth for every alpha."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from gatewise.checks import check_number
from gatewise.units.contract import Limits, UnitModule, check_input, error_bounds, promise, unit


def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    r"""Return ``x`` where it is positive, ``alpha * (exp(x / alpha) - 1)`` elsewhere.

    .. math:: \mathrm{CELU}(x) = \max(x, 0) + \alpha\,(e^{\min(x, 0) / \alpha} - 1)

    The derivative is continuous for every ``alpha``.

    Args:
        x: the input, a real floating point tensor.
        alpha: minus the limit at minus infinity, above 0.

    Shape: ``(*) -> (*)``.

    Barron, 2017, "Continuously Differentiable Exponential Linear Units", arXiv:1704.07483.
    """
    alpha = check_number("celu", "alpha", alpha, above=0.0)
    return functional.celu(check_input("celu", x), alpha)


@unit(
    name="celu",
    title="Continuously differentiable exponential linear unit",
    family="smooth",
    on="x > 0",
    function=celu,
    formula=r"\max(x, 0) + \alpha\,(e^{\min(x, 0) / \alpha} - 1)",
    paper="Barron, 2017 (arXiv:1704.07483)",
    reference=torch.nn.functional.celu,
    limits=lambda alpha=1.0: Limits(minus=(-alpha,), plus=(math.inf,)),
    error=error_bounds(half=promise(1), float32=promise(4, back_absolute=2**-24)),
    samples=({}, {"alpha": 0.5}),
)
class CELU(UnitModule):
    """Module form of :func:`celu`.

    Args:
        alpha: minus the limit at minus infinity, above 0.
    """

    expression = staticmethod(functional.celu)
    fusable = False
