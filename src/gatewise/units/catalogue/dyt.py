"""DyT: a hyperbolic tangent with a trainable slope in place of a normalisation layer."""

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


def dyt(
    x: Tensor,
    alpha: float | Tensor = 0.5,
    weight: float | Tensor = 1.0,
    bias: float | Tensor = 0.0,
    dim: int = -1,
) -> Tensor:
    r"""Return ``weight * tanh(alpha * x) + bias``.

    .. math:: \mathrm{DyT}(x) = \gamma \tanh(\alpha x) + b

    where :math:`\gamma` is ``weight``. It takes the place of a layer norm, without statistics of
    the input: a trained network does not keep its function when its norms are replaced.

    Args:
        x: the input, a real floating point tensor.
        alpha: the slope, one number.
        weight: the factor, one number or one per channel.
        bias: the offset, one number or one per channel.
        dim: the channel dimension of the input.

    Shape: ``(*) -> (*)``.

    Zhu et al., 2025, "Transformers without Normalization", arXiv:2503.10622.
    """
    return compute_per_channel(
        "dyt", _dyt, x, dim, {"alpha": alpha, "weight": weight, "bias": bias}
    )


def _dyt(x: Tensor, alpha: float | Tensor, weight: float | Tensor, bias: float | Tensor) -> Tensor:
    return weight * torch.tanh(alpha * x) + bias


@unit(
    name="dyt",
    title="Dynamic hyperbolic tangent",
    family="adaptive",
    on="x > 0",
    function=dyt,
    formula=r"\gamma \tanh(\alpha x) + b",
    paper="Zhu et al., 2025 (arXiv:2503.10622)",
    reference=by_channel(
        lambda x, alpha, weight, bias: weight * (2 * torch.special.expit(2 * alpha * x) - 1) + bias
    ),
    limits=lambda weight=1.0, bias=0.0: Limits(minus=(bias - weight,), plus=(bias + weight,)),
    parameters={"alpha": "0.5", "weight": "1", "bias": "0"},
    error=error_bounds(float32=promise(4, 2**-22)),
    samples=(
        {},
        {"alpha": 0.8, "weight": -1.0, "bias": 0.25, "channels": 6, "dim": 1},
        {"weight": 1.5},
    ),
    note="A replacement of LayerNorm or RMSNorm, trained from the start.",
)
class DyT(TrainableUnit):
    """Module form of :func:`dyt`.

    Args:
        alpha: the start value of the slope, one number for all channels.
        weight: the start value of the factor.
        bias: the start value of the offset.
        channels: the number of channels for one factor and offset per channel; ``None`` for one in
            all.
        dim: the channel dimension of the input.
        device: the device of the parameters.
        dtype: the dtype of the parameters.
    """

    expression = staticmethod(_dyt)
    per_layer = ("alpha",)
