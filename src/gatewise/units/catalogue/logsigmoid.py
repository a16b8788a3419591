"""LogSigmoid: the logarithm of the logistic function."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from gatewise.units.contract import (
    LINEAR_FROM,
    Limits,
    UnitModule,
    check_input,
    error_bounds,
    promise,
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
    return _logsigmoid(check_input("logsigmoid", x))


def _logsigmoid(x: Tensor) -> Tensor:
    # Torch's own loses channels_last.
    return -functional.softplus(-x, threshold=LINEAR_FROM)


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
    error=error_bounds(float32=promise(4, 2**-24)),
)
class LogSigmoid(UnitModule):
    """Module form of :func:`logsigmoid`."""

    expression = staticmethod(_logsigmoid)
