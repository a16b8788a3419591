"""Tanhshrink: what the hyperbolic tangent takes off its input."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from gatewise.units.contract import (
    Limits,
    UnitModule,
    check_input,
    error_bounds,
    in_compute_dtype,
    promise,
    unit,
)


def tanhshrink(x: Tensor) -> Tensor:
    r"""Return ``x`` minus its hyperbolic tangent.

    .. math:: \mathrm{tanhshrink}(x) = x - \tanh(x)

    Near 0 the result is about ``x**3 / 3``, where the difference cancels: it is right to an
    absolute error only.

    Args:
        x: the input, a real floating point tensor.

    Shape: ``(*) -> (*)``.

    torch has it as ``torch.nn.Tanhshrink``.
    """
    return in_compute_dtype(functional.tanhshrink, check_input("tanhshrink", x))


@unit(
    name="tanhshrink",
    title="Tanh shrinkage",
    family="smooth",
    on="gate > 1/2",
    function=tanhshrink,
    formula=r"x - \tanh(x)",
    paper="torch.nn.Tanhshrink",
    reference=lambda x: x - torch.tanh(x),
    limits=Limits(minus=(-math.inf,), plus=(math.inf,)),
    error=error_bounds(float32=promise(4, 2**-23)),
    note="Passes little near 0 and almost everything far out, on both sides.",
)
class Tanhshrink(UnitModule):
    """Module form of :func:`tanhshrink`."""

    expression = staticmethod(functional.tanhshrink)
