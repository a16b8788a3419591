"""ELU: an exponential floor under the identity."""

import math

import torch
from torch import Tensor

from gatewise.units.contract import (
    FEW_PASSES,
    FewPasses,
    Limits,
    UnitModule,
    check_input,
    check_number,
    elementwise,
    error_bounds,
    promise,
    unit,
)


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
    return elementwise(_plain, x, check_number("elu", "alpha", alpha))


def _plain(w: Tensor, alpha: float | Tensor) -> Tensor:
    low = torch.where(w > 0, 0.0, w)
    # expm1 is exact near 0, but torch computes its derivative as result + 1, which cancels for
    # large negative inputs. For exp - 1 it is the other way round.
    floor = torch.where(low < -1, torch.exp(low) - 1.0, torch.expm1(low))
    return torch.where(w > 0, w, alpha * floor)


def _values(x: Tensor, out: Tensor, alpha: float) -> None:
    torch.ops.aten.elu.out(x, alpha, out=out)


def _slopes(above: Tensor, x: Tensor, out: Tensor, alpha: float) -> None:
    out.copy_(torch.ops.aten.elu_backward(above, alpha, 1.0, 1.0, False, x))


FEW_PASSES[_plain] = FewPasses(_values, _slopes)


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

    def __init__(self, *, alpha: float = 1.0) -> None:
        super().__init__(alpha=alpha)
        self.alpha = check_number("elu", "alpha", alpha)

    def arguments(self, x: Tensor) -> dict[str, float]:
        return {"alpha": self.alpha}

    def forward(self, x: Tensor) -> Tensor:
        return elu(x, **self.arguments(x))
