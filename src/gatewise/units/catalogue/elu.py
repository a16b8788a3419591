"""ELU: an exponential floor under the identity."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from gatewise.checks import check_number
from gatewise.units.contract import Limits, UnitModule, check_input, error_bounds, promise, unit


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    r"""Return ``x`` where it is positive, ``alpha * (exp(x) - 1)`` elsewhere.

    .. math:: \mathrm{ELU}(x) = \max(x, 0) + \alpha\,(e^{\min(x, 0)} - 1)

    The curve is smooth for ``alpha=1``. For other values the derivative at 0 is ``alpha``.

    Args:
        x: the input, a real floating point tensor.
        alpha: minus the limit at minus infinity.

    Shape: ``(*) -> (*)``.

    Clevert, Unterthiner and Hochreiter, 2016, "Fast and Accurate Deep Network Learning by ELUs",
    arXiv:1511.07289.
    """
    check_input("elu", x)
    return functional.elu(x, check_number("elu", "alpha", alpha))


@unit(
    name="elu",
    title="Exponential linear unit",
    family="smooth",
    on="x > 0",
    function=elu,
    formula=r"\max(x, 0) + \alpha\,(e^{\min(x, 0)} - 1)",
    paper="Clevert, Unterthiner and Hochreiter, 2016 (arXiv:1511.07289)",
    studied_in=("iieu",),
    reference=torch.nn.functional.elu,
    limits=lambda alpha=1.0: Limits(minus=(-alpha,), plus=(math.inf,)),
    kinks=lambda alpha=1.0: {} if alpha == 1.0 else {0.0: alpha},
    error=error_bounds(
        half=promise(1),
        float32=promise(2),
    ),
    samples=({}, {"alpha": 0.5}),
)
class ELU(UnitModule):
    """Module form of :func:`elu`.

    Args:
        alpha: minus the limit at minus infinity.
    """

    expression = staticmethod(functional.elu)
    fusable = False
