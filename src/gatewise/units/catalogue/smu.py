"""SMU: a leaky ReLU smoothed with the error function."""

import math

import torch
from torch import Tensor

from gatewise.checks import check_number
from gatewise.units.contract import (
    TrainableUnit,
    by_channel,
    compute_per_channel,
    error_bounds,
    leaky_limits,
    promise,
    unit,
)


def smu(
    x: Tensor,
    mu: float | Tensor = 1e6,
    alpha: float = 0.25,
    dim: int = 1,
) -> Tensor:
    r"""Return the smooth maximum of ``x`` and ``alpha * x``.

    .. math:: \mathrm{SMU}(x) = \tfrac{1}{2}\big((1 + \alpha) x
        + (1 - \alpha) x\,\mathrm{erf}(\mu (1 - \alpha) x)\big)

    At the published start ``mu = 1e6`` it is a leaky ReLU, and the gradient to ``mu`` is 0 wherever
    ``|x| > 1e-5``, so ``mu`` does not train. Start at 1 to 2.5 for a ``mu`` that trains. With
    ``alpha=0`` and ``mu=sqrt(1/2)`` it is GELU.

    Args:
        x: the input, a real floating point tensor.
        mu: the steepness of the switch, one number or one per channel.
        alpha: the slope for large negative inputs.
        dim: the channel dimension of the input.

    Shape: ``(*) -> (*)``.

    Biswas et al., 2022, "Smooth Maximum Unit", arXiv:2111.04682.
    """
    alpha = check_number("smu", "alpha", alpha)
    return compute_per_channel("smu", _smu, x, dim, {"mu": mu}, alpha)


def _smu(x: Tensor, mu: float | Tensor, alpha: float) -> Tensor:
    rest = 1 - alpha
    return 0.5 * ((1 + alpha) * x + rest * x * torch.erf(mu * rest * x))


@unit(
    name="smu",
    title="Smooth maximum unit",
    family="adaptive",
    on="x > 0",
    function=smu,
    formula=r"\frac{1}{2}\,((1 + \alpha)\,x + (1 - \alpha)\,x\,\mathrm{erf}(\mu(1 - \alpha)x))",
    paper="Biswas et al., 2022 (arXiv:2111.04682)",
    studied_in=("iieu",),
    reference=by_channel(
        lambda x, mu, alpha=0.25: (
            alpha * x + (1 - alpha) * x * 0.5 * torch.erfc(-mu * (1 - alpha) * x)
        )
    ),
    limits=lambda alpha=0.25: leaky_limits(alpha),
    kinks=lambda mu=1e6, alpha=0.25: {0.0: (1 + alpha) / 2} if mu > 100 else {},
    parameters={"mu": "1e6 (dead: choose 1 to 2.5 for one that trains)"},
    largest=1e38,
    error=error_bounds(
        half=promise(1, 2**-21),
        float32=promise(4, 2**-22),
    ),
    samples=({}, {"mu": 2.5, "channels": 6}, {"mu": math.sqrt(0.5), "alpha": 0.0}),
    note="At the published start mu = 1e6 the gradient to mu vanishes; SMU(mu=2.5) trains.",
)
class SMU(TrainableUnit):
    """Module form of :func:`smu` with a trainable ``mu``.

    Args:
        mu: the start value of ``mu``. The published start is 1e6; :func:`smu` explains why another
            may be better.
        alpha: the slope for large negative inputs.
        channels: the number of channels for one set of parameters per channel; ``None`` for one set
            in all.
        dim: the channel dimension of the input.
        device: the device of the parameters.
        dtype: the dtype of the parameters.
    """

    expression = staticmethod(_smu)
