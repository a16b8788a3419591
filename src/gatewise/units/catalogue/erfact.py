"""ErfAct: x gated by the error function of an exponential."""

import torch
from torch import Tensor

from gatewise.units.contract import (
    RECTIFIED,
    TrainableUnit,
    by_channel,
    compute_per_channel,
    error_bounds,
    promise,
    unit,
)


def erfact(
    x: Tensor,
    alpha: float | Tensor = 0.75,
    beta: float | Tensor = 0.75,
    dim: int = 1,
) -> Tensor:
    r"""Return ``x`` times the error function of a scaled exponential.

    .. math:: \mathrm{ErfAct}(x) = x\,\mathrm{erf}(\alpha e^{\beta x})

    As published, float32 gives NaN gradients at large ``x`` (infinity times 0). Here ``beta * x``
    is bounded by 40, where the gate is 1 to the last digit, so neither value nor gradient changes.

    Args:
        x: the input, a real floating point tensor.
        alpha: the factor of the exponential, one number or one per channel.
        beta: the factor in the exponent, one number or one per channel.
        dim: the channel dimension of the input.

    Shape: ``(*) -> (*)``.

    Biswas et al., 2022, "ErfAct and Pserf: Non-monotonic Smooth Trainable Activation Functions",
    arXiv:2109.04386.
    """
    return compute_per_channel("erfact", _erfact, x, dim, {"alpha": alpha, "beta": beta})


def _erfact(x: Tensor, alpha: float | Tensor, beta: float | Tensor) -> Tensor:
    # Beyond 40 the gate is 1, and from 89 on the derivative of the exponential is infinite.
    return x * torch.erf(alpha * torch.exp(torch.clamp(beta * x, max=40.0)))


@unit(
    name="erfact",
    title="ErfAct",
    family="adaptive",
    on="gate > 1/2",
    function=erfact,
    formula=r"x\,\mathrm{erf}(\alpha\,e^{\beta x})",
    paper="Biswas et al., 2022 (arXiv:2109.04386)",
    studied_in=("iieu",),
    reference=by_channel(
        lambda x, alpha, beta: x * torch.erf(alpha * torch.exp((beta * x).clamp(max=300.0)))
    ),
    limits=RECTIFIED,
    parameters={"alpha": "0.75", "beta": "0.75"},
    largest=1e38,
    error=error_bounds(
        float32=promise(4, 2**-22),
    ),
    samples=(
        {},
        {
            "alpha": 0.5,
            "beta": 1.5,
            "channels": 6,
        },
    ),
    note="The published form has NaN gradients in float32 at large x; this form has none.",
)
class ErfAct(TrainableUnit):
    """Module form of :func:`erfact` with trainable ``alpha`` and ``beta``.

    Args:
        alpha: the start value of ``alpha``.
        beta: the start value of ``beta``.
        channels: the number of channels for one set of parameters per channel; ``None`` for one set
            in all.
        dim: the channel dimension of the input.
        device: the device of the parameters.
        dtype: the dtype of the parameters.
    """

    expression = staticmethod(_erfact)
