"""Swish: SiLU with a trainable steepness, the beta vector-quantisation form of ReLU."""

import math

import torch
from torch import Tensor

from gatewise.units.contract import (
    Limits,
    TrainableUnit,
    by_channel,
    compute_per_channel,
    error_bounds,
    promise,
    unit,
)


def swish(x: Tensor, beta: float | Tensor = 1.0, dim: int = 1) -> Tensor:
    r"""Return ``x`` times the logistic function of ``beta * x``.

    .. math:: \mathrm{Swish}_\beta(x) = x\,\sigma(\beta x)

    With ``beta = b / (1 - b)`` it equals ``beta_vq(x, "relu", beta=b)``. With ``beta = 0`` it is
    the line x/2, with a large ``beta`` it is ReLU.

    Args:
        x: the input, a real floating point tensor.
        beta: the steepness of the gate, one number or one per channel.
        dim: the channel dimension of the input.

    Shape: ``(*) -> (*)``.

    Ramachandran, Zoph and Le, 2017, "Searching for Activation Functions", arXiv:1710.05941.
    """
    return compute_per_channel("swish", _swish, x, dim, {"beta": beta})


def _swish(x: Tensor, beta: float | Tensor) -> Tensor:
    return x * torch.sigmoid(beta * x)


def _limits(beta: float = 1.0) -> Limits:
    # By the sign of beta. With beta = 0 the unit is the line x / 2.
    ends = {
        1: (0.0, math.inf),
        0: (-math.inf, math.inf),
        -1: (-math.inf, 0.0),
    }
    minus, plus = ends[(beta > 0) - (beta < 0)]
    return Limits(minus=(minus,), plus=(plus,))


@unit(
    name="swish",
    title="Swish",
    family="soft",
    on="x > 0",
    function=swish,
    formula=r"x\,\sigma(\beta x)",
    paper="Ramachandran, Zoph and Le, 2017 (arXiv:1710.05941)",
    studied_in=("maso", "iieu", "dgn"),
    reference=by_channel(lambda x, beta: x * torch.special.expit(beta * x)),
    limits=_limits,
    parameters={"beta": "1.0"},
    error=error_bounds(
        float32=promise(4, 2**-23, back_absolute=2**-18),
    ),
    samples=({}, {"beta": 2.5, "channels": 6}, {"beta": -1.0}),
)
class Swish(TrainableUnit):
    """Module form of :func:`swish` with a trainable ``beta``.

    Args:
        beta: the start value of ``beta``.
        channels: the number of channels for one set of parameters per channel; ``None`` for one set
            in all.
        dim: the channel dimension of the input.
        device: the device of the parameters.
        dtype: the dtype of the parameters.
    """

    expression = staticmethod(_swish)
