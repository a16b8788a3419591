"""SiLU: the soft vector-quantisation form of ReLU."""

import torch
from torch import Tensor
from torch.nn import functional

from gatewise.units.contract import (
    RECTIFIED,
    UnitModule,
    check_input,
    error_bounds,
    promise,
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
    return functional.silu(check_input("silu", x))


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
    limits=RECTIFIED,
    error=error_bounds(
        float32=promise(4, 2**-24, back_absolute=2**-19),
    ),
)
class SiLU(UnitModule):
    """Module form of :func:`silu`."""

    expression = staticmethod(functional.silu)
    fusable = False
