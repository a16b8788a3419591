"""ErfAct: x gated by the error function of an exponential."""

import math

import torch
from torch import Tensor

from gatewise.units.contract import (
    Device,
    DType,
    Limits,
    TrainableUnit,
    at_most,
    by_channel,
    check_input,
    elementwise,
    error_bounds,
    per_channel,
    promise,
    self_gated,
    unit,
)

_SATURATED = (
    40.0  # erf(a exp(40)) is 1 in float64 for any a above 1e-16, and exp(40)^2 is far from overflow
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
    check_input("erfact", x)
    a = per_channel("erfact", "alpha", alpha, x, dim)
    b = per_channel("erfact", "beta", beta, x, dim)
    return elementwise(_plain, x, a, b)


def _plain(w: Tensor, alpha: float | Tensor, beta: float | Tensor) -> Tensor:
    return self_gated(w, lambda z: torch.erf(alpha * torch.exp(at_most(beta * z, _SATURATED))))


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
    limits=Limits(minus=(0.0,), plus=(math.inf,)),
    parameters={"alpha": "0.75", "beta": "0.75"},
    error=error_bounds(
        half=promise(1, 2**-24),
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

    def __init__(
        self,
        *,
        alpha: float = 0.75,
        beta: float = 0.75,
        channels: int | None = None,
        dim: int = 1,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        super().__init__(
            "erfact",
            {"alpha": alpha, "beta": beta},
            channels=channels,
            dim=dim,
            device=device,
            dtype=dtype,
        )

    def forward(self, x: Tensor) -> Tensor:
        return erfact(x, **self.arguments(x))
