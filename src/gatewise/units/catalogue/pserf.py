"""Pserf: x gated by the error function of a softplus."""

import torch
from torch import Tensor
from torch.nn import functional

from gatewise.units.contract import (
    LINEAR_FROM,
    RECTIFIED,
    TrainableUnit,
    by_channel,
    compute_per_channel,
    error_bounds,
    promise,
    unit,
)


def pserf(
    x: Tensor,
    gamma: float | Tensor = 1.25,
    delta: float | Tensor = 0.85,
    dim: int = 1,
) -> Tensor:
    r"""Return ``x`` times the error function of a scaled softplus.

    .. math:: \mathrm{Pserf}(x) = x\,\mathrm{erf}(\gamma \log(1 + e^{\delta x}))

    Args:
        x: the input, a real floating point tensor.
        gamma: the factor of the softplus, one number or one per channel.
        delta: the factor in the exponent, one number or one per channel.
        dim: the channel dimension of the input.

    Shape: ``(*) -> (*)``.

    Biswas et al., 2022, "ErfAct and Pserf: Non-monotonic Smooth Trainable Activation Functions",
    arXiv:2109.04386.
    """
    return compute_per_channel("pserf", _pserf, x, dim, {"gamma": gamma, "delta": delta})


def _pserf(x: Tensor, gamma: float | Tensor, delta: float | Tensor) -> Tensor:
    return x * torch.erf(gamma * functional.softplus(delta * x, threshold=LINEAR_FROM))


@unit(
    name="pserf",
    title="Pserf",
    family="adaptive",
    on="gate > 1/2",
    function=pserf,
    formula=r"x\,\mathrm{erf}(\gamma\,\log(1 + e^{\delta x}))",
    paper="Biswas et al., 2022 (arXiv:2109.04386)",
    studied_in=("iieu",),
    reference=by_channel(
        lambda x, gamma, delta: (
            x * torch.erf(gamma * torch.logaddexp(delta * x, torch.zeros_like(x)))
        )
    ),
    limits=RECTIFIED,
    parameters={"gamma": "1.25", "delta": "0.85"},
    largest=1e38,
    error=error_bounds(
        float32=promise(4, 2**-22),
    ),
    samples=(
        {},
        {
            "gamma": 1.0,
            "delta": 1.25,
            "channels": 6,
        },
    ),
    note="Starts at 1.25 and 0.85; another published implementation starts at 1.0 and 1.25.",
)
class Pserf(TrainableUnit):
    """Module form of :func:`pserf` with trainable ``gamma`` and ``delta``.

    Args:
        gamma: the start value of ``gamma``.
        delta: the start value of ``delta``.
        channels: the number of channels for one set of parameters per channel; ``None`` for one set
            in all.
        dim: the channel dimension of the input.
        device: the device of the parameters.
        dtype: the dtype of the parameters.
    """

    expression = staticmethod(_pserf)
