"""Absolute value: the magnitude of a response, without its sign."""

import torch
from torch import Tensor

from gatewise.units.contract import (
    EXACT,
    Limits,
    UnitModule,
    check_input,
    unit,
)


def abs(x: Tensor) -> Tensor:
    r"""Return the magnitude of ``x``.

    .. math:: |x| = \max(-x, x)

    The derivative at 0 is 0.

    Args:
        x: the input, a real floating point tensor.

    Shape: ``(*) -> (*)``.

    Bruna and Mallat, 2013, "Invariant Scattering Convolution Networks", arXiv:1203.1513; a
    max-affine unit in Balestriero and Baraniuk, 2019, arXiv:1810.09274.
    """
    return torch.abs(check_input("abs", x))


@unit(
    name="abs",
    title="Absolute value",
    family="max-affine",
    on="x > 0",
    function=abs,
    formula=r"|x|",
    paper="Bruna and Mallat, 2013 (arXiv:1203.1513)",
    studied_in=("psc", "maso"),
    reference=lambda x: x * x.sign(),
    limits=Limits(minus=(float("inf"),), plus=(float("inf"),)),
    kinks={0.0: 0.0},
    pieces=((-1.0, 1.0), (0.0, 0.0)),
    spans={"abs": (1.0,)},
    error=EXACT,
)
class Abs(UnitModule):
    """Module form of :func:`abs`."""

    expression = staticmethod(torch.abs)
    fusable = False
