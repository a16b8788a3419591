"""LogSigmoid: the logarithm of the logistic function."""

import math

import torch
from torch import Tensor

from gatewise.units.contract import (
    Limits,
    UnitModule,
    check_input,
    elementwise,
    error_bounds,
    promise,
    softplus,
    unit,
)


def logsigmoid(x: Tensor) -> Tensor:
    r"""Return the logarithm of the logistic function.

    .. math:: \log \sigma(x) = -\log(1 + e^{-x})

    The value at 0 is -log 2, so the gate is the derivative, not a factor of ``x``.

    Args:
        x: the input, a real floating point tensor.

    Shape: ``(*) -> (*)``.

    The log-likelihood of logistic regression; torch has it as ``torch.nn.LogSigmoid``.
    """
    return elementwise(_plain, check_input("logsigmoid", x))


def _plain(w: Tensor) -> Tensor:
    return -softplus(-w)


@unit(
    name="logsigmoid",
    title="Logarithm of the logistic sigmoid",
    family="smooth",
    on="x > 0",
    function=logsigmoid,
    formula=r"-\log(1 + e^{-x})",
    paper="torch.nn.LogSigmoid",
    reference=lambda x: -torch.logaddexp(torch.zeros_like(x), -x),
    limits=Limits(minus=(-math.inf,), plus=(0.0,)),
    error=error_bounds(half=promise(1, 2**-24), float32=promise(4, 2**-24)),
)
class LogSigmoid(UnitModule):
    """Module form of :func:`logsigmoid`."""

    def __init__(self) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return logsigmoid(x)
