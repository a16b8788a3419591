"""Sigmoid: the logistic function."""

import torch
from torch import Tensor

from gatewise.units.contract import (
    Limits,
    UnitModule,
    check_input,
    error_bounds,
    in_compute_dtype,
    promise,
    unit,
)


def sigmoid(x: Tensor) -> Tensor:
    r"""Return the logistic function.

    .. math:: \sigma(x) = \frac{1}{1 + e^{-x}}

    This is a gate, not a gate times a response: the value at 0 is 1/2.

    Args:
        x: the input, a real floating point tensor.

    Shape: ``(*) -> (*)``.

    Rumelhart, Hinton and Williams, 1986, "Learning representations by back-propagating errors".
    """
    return in_compute_dtype(torch.sigmoid, check_input("sigmoid", x))


@unit(
    name="sigmoid",
    title="Logistic sigmoid",
    family="smooth",
    on="gate > 1/2",
    function=sigmoid,
    formula=r"\frac{1}{1 + e^{-x}}",
    paper="Rumelhart, Hinton and Williams, 1986 (Nature)",
    reference=torch.special.expit,
    limits=Limits(minus=(0.0,), plus=(1.0,)),
    error=error_bounds(float32=promise(4, 2**-24, back_absolute=2**-22)),
    note="A gate itself: the value at 0 is 1/2.",
)
class Sigmoid(UnitModule):
    """Module form of :func:`sigmoid`."""

    expression = staticmethod(torch.sigmoid)
    fusable = False
