"""SMU-1: a leaky ReLU smoothed with a square root."""

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

_START = 4.352665993287951e-9
# Beyond this distance the smooth corner is below the last digit of any float, and the square of a
# larger distance would overflow.


def smu1(
    x: Tensor,
    mu: float | Tensor = _START,
    alpha: float = 0.25,
    dim: int = 1,
) -> Tensor:
    r"""Return the smooth maximum of ``x`` and ``alpha * x``, by a hyperbola.

    .. math:: \mathrm{SMU1}(x) = \tfrac{1}{2}\left((1 + \alpha) x
        + \sqrt{(1 - \alpha)^2 x^2 + \mu^2}\right)

    It is computed as the leaky ReLU plus :math:`\mu^2 / (2 (h + |t|))` with :math:`t = (1 - \alpha)
    x` and :math:`h = \sqrt{t^2 + \mu^2}`, which neither overflows nor cancels. The published start
    ``mu = 4.35e-9`` squares to 0 in float16, where the printed form divides 0 by 0 at ``x = 0``;
    this form does not.

    Args:
        x: the input, a real floating point tensor.
        mu: the width of the smooth corner, one number or one per channel.
        alpha: the slope for large negative inputs.
        dim: the channel dimension of the input.

    Shape: ``(*) -> (*)``.

    Biswas et al., 2022, "Smooth Maximum Unit", arXiv:2111.04682.
    """
    alpha = check_number("smu1", "alpha", alpha)
    return compute_per_channel("smu1", _smu1, x, dim, {"mu": mu}, alpha)


def _smu1(x: Tensor, mu: float | Tensor, alpha: float) -> Tensor:
    gap = (1 - alpha) * x
    # The smallest number keeps the derivative finite where mu and x are 0.
    distance = torch.sqrt(gap * gap + mu * mu + torch.finfo(x.dtype).tiny)
    return 0.5 * ((1 + alpha) * x + distance)


@unit(
    name="smu1",
    title="Smooth maximum unit, square-root form",
    family="adaptive",
    on="x > 0",
    function=smu1,
    formula=r"\frac{1}{2}\,((1 + \alpha)\,x + \sqrt{(1 - \alpha)^2 x^2 + \mu^2})",
    paper="Biswas et al., 2022 (arXiv:2111.04682)",
    studied_in=("iieu",),
    reference=by_channel(
        lambda x, mu, alpha=0.25: ((1 + alpha) * x + torch.hypot((1 - alpha) * x, mu + 0 * x)) / 2
    ),
    limits=lambda alpha=0.25: leaky_limits(alpha),
    kinks=lambda mu=_START, alpha=0.25: {0.0: (1 + alpha) / 2} if mu < 1e-2 else {},
    parameters={"mu": "4.352665993287951e-9"},
    largest=2e19,
    error=error_bounds(
        float32=promise(4, 2**-22),
    ),
    samples=({}, {"mu": 0.5, "channels": 6}),
    note="mu starts so small that the unit is a leaky ReLU; SMU1(mu=0.5) starts smooth.",
)
class SMU1(TrainableUnit):
    """Module form of :func:`smu1` with a trainable ``mu``.

    Args:
        mu: the start value of ``mu``.
        alpha: the slope for large negative inputs.
        channels: the number of channels for one set of parameters per channel; ``None`` for one set
            in all.
        dim: the channel dimension of the input.
        device: the device of the parameters.
        dtype: the dtype of the parameters.
    """

    expression = staticmethod(_smu1)
