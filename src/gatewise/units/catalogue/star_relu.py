"""StarReLU: a squared rectifier with a trainable scale and offset."""

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


def star_relu(
    x: Tensor,
    scale: float | Tensor = 1.0,
    bias: float | Tensor = 0.0,
    dim: int = 1,
) -> Tensor:
    r"""Return ``scale * relu(x)**2 + bias``, both trainable.

    .. math:: \mathrm{StarReLU}(x) = s \max(x, 0)^2 + b

    where :math:`s` is ``scale`` and :math:`b` is ``bias``. With 0.8944 and -0.4472 the result has
    mean 0 and variance 1 for a standard normal input; public checkpoints start at 1 and 0, as here.

    Args:
        x: the input, a real floating point tensor.
        scale: the factor, one number or one per channel.
        bias: the offset, one number or one per channel.
        dim: the channel dimension of the input.

    Shape: ``(*) -> (*)``.

    Yu et al., 2022, "MetaFormer Baselines for Vision", arXiv:2210.13452.
    """
    return compute_per_channel("star_relu", _star_relu, x, dim, {"scale": scale, "bias": bias})


def _star_relu(x: Tensor, scale: float | Tensor, bias: float | Tensor) -> Tensor:
    positive = torch.relu(x)
    return scale * positive * positive + bias


@unit(
    name="star_relu",
    title="Star rectified linear unit",
    family="adaptive",
    on="x > 0",
    function=star_relu,
    formula=r"s \max(x, 0)^2 + b",
    paper="Yu et al., 2022 (arXiv:2210.13452)",
    reference=by_channel(
        lambda x, scale, bias: torch.where(x > 0, scale * x * x + bias, 0 * x.clamp(0, 0) + bias)
    ),
    limits=lambda bias=0.0: Limits(minus=(bias,), plus=(math.inf,)),
    parameters={"scale": "1", "bias": "0"},
    error=error_bounds(float32=promise(4, 2**-23)),
    samples=({}, {"scale": 0.8944, "bias": -0.4472, "channels": 6}),
)
class StarReLU(TrainableUnit):
    """Module form of :func:`star_relu`.

    Args:
        scale: the start value of the factor.
        bias: the start value of the offset.
        channels: the number of channels for one set of parameters per channel; ``None`` for one set
            in all.
        dim: the channel dimension of the input.
        device: the device of the parameters.
        dtype: the dtype of the parameters.
    """

    expression = staticmethod(_star_relu)
