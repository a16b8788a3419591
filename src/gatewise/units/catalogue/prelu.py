"""PReLU: a leaky ReLU that learns its negative slope."""

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


def prelu(x: Tensor, slope: float | Tensor = 0.25, dim: int = 1) -> Tensor:
    r"""Return ``x`` where it is positive, ``slope * x`` elsewhere, with a trainable ``slope``.

    .. math:: \mathrm{PReLU}(x) = \max(x, 0) + a \min(x, 0)

    where :math:`a` is ``slope``. The derivative at 0 is ``slope``.

    Args:
        x: the input, a real floating point tensor.
        slope: the slope for negative inputs, one number or one per channel.
        dim: the channel dimension of the input.

    Shape: ``(*) -> (*)``.

    He et al., 2015, "Delving Deep into Rectifiers", arXiv:1502.01852, who advise no weight decay on
    the slope.
    """
    return compute_per_channel("prelu", _prelu, x, dim, {"slope": slope})


def _prelu(x: Tensor, slope: float | Tensor) -> Tensor:
    return torch.where(x > 0, x, slope * x)


@unit(
    name="prelu",
    title="Parametric rectified linear unit",
    family="adaptive",
    on="x > 0",
    function=prelu,
    formula=r"\max(x, 0) + a\,\min(x, 0)",
    paper="He et al., 2015 (arXiv:1502.01852)",
    studied_in=("psc", "iieu"),
    reference=by_channel(lambda x, slope: x.clamp(min=0) + slope * x.clamp(max=0)),
    limits=Limits(minus=(float("-inf"),), plus=(float("inf"),)),
    kinks=lambda slope=0.25: {0.0: slope},
    pieces=lambda slope=0.25: ((slope, 1.0), (0.0, 0.0)),
    parameters={"slope": "0.25"},
    error=error_bounds(
        half=promise(1),
        float32=promise(1),
    ),
    samples=({}, {"slope": 0.1, "channels": 6}),
)
class PReLU(TrainableUnit):
    """Module form of :func:`prelu`.

    Args:
        slope: the start value of the slope.
        channels: the number of channels for one set of parameters per channel; ``None`` for one set
            in all.
        dim: the channel dimension of the input.
        device: the device of the parameters.
        dtype: the dtype of the parameters.
    """

    expression = staticmethod(_prelu)
