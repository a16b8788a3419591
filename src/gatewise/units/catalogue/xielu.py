"""xIELU: the integral of an ELU, with a trainable slope on each side."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from gatewise.checks import check_number
from gatewise.units.contract import (
    Device,
    DType,
    Limits,
    TrainableUnit,
    by_channel,
    compute_per_channel,
    error_bounds,
    promise,
    unit,
)


def _inverse_softplus(value: float) -> float:
    return value + math.log(-math.expm1(-value))


# The start values of both sides before the softplus.
RAW_POSITIVE = _inverse_softplus(0.8)
RAW_NEGATIVE = _inverse_softplus(0.3)


def xielu(
    x: Tensor,
    alpha_p: float | Tensor = RAW_POSITIVE,
    alpha_n: float | Tensor = RAW_NEGATIVE,
    beta: float = 0.5,
    dim: int = 1,
) -> Tensor:
    r"""Return a parabola for positive and the integral of an ELU for negative inputs.

    .. math:: \mathrm{xIELU}(x) = a_p \max(x, 0)^2 + a_n (e^{\min(x, 0)} - 1 - \min(x, 0)) + \beta x

    where :math:`a_p` is the softplus of ``alpha_p`` and :math:`a_n` is ``beta`` plus the softplus
    of ``alpha_n``. The value at 0 is 0 and the derivative there is ``beta``. Some public code takes
    the exponential of at most -1e-6 and lets autograd differentiate that: it has the slope -0.3 at
    0.

    Args:
        x: the input, a real floating point tensor.
        alpha_p: the parameter of the positive side, before the softplus.
        alpha_n: the parameter of the negative side, before the softplus.
        beta: the slope at 0.
        dim: the channel dimension of the input.

    Shape: ``(*) -> (*)``.

    Huang and Schlag, 2024, "Deriving Activation Functions Using Integration", arXiv:2411.13010.
    """
    beta = check_number("xielu", "beta", beta)
    numbers = {"alpha_p": alpha_p, "alpha_n": alpha_n}
    return compute_per_channel("xielu", _xielu, x, dim, numbers, beta)


def _xielu(x: Tensor, raw: float | Tensor, raw_left: float | Tensor, beta: float) -> Tensor:
    curve = functional.softplus(torch.as_tensor(raw, dtype=x.dtype, device=x.device))
    left = beta + functional.softplus(torch.as_tensor(raw_left, dtype=x.dtype, device=x.device))
    below = torch.clamp(x, max=0.0)
    return torch.where(x > 0, curve * x * x, left * (torch.expm1(below) - below)) + beta * x


def _reference(x: Tensor, alpha_p: Tensor, alpha_n: Tensor, beta: float) -> Tensor:
    positive = torch.nn.functional.softplus(alpha_p)
    negative = beta + torch.nn.functional.softplus(alpha_n)
    above = x.clamp(min=0)
    below = torch.where(x > 0, torch.zeros_like(x), x)
    return positive * above.square() + negative * (torch.expm1(below) - below) + beta * x


@unit(
    name="xielu",
    title="Expanded integral of the exponential linear unit",
    family="adaptive",
    on="x > 0",
    function=xielu,
    formula=r"a_p \max(x, 0)^2 + a_n (e^{\min(x, 0)} - 1 - \min(x, 0)) + \beta x",
    paper="Huang and Schlag, 2024 (arXiv:2411.13010)",
    reference=by_channel(_reference),
    limits=Limits(minus=(math.inf,), plus=(math.inf,)),
    parameters={"alpha_p": "softplus^-1(0.8)", "alpha_n": "softplus^-1(0.8 - beta)"},
    error=error_bounds(float32=promise(4, 2**-19)),
    samples=({}, {"alpha_p": 1.0, "channels": 6}),
    note="Grows like x^2 for positive inputs; float16 overflows from 286 on.",
)
class XIELU(TrainableUnit):
    """Module form of :func:`xielu`.

    The parameters have the names of public checkpoints and are stored before the softplus.

    Args:
        alpha_p: the start value of the positive side, after the softplus, above 0.
        alpha_n: the start value of the negative side, above ``beta``.
        beta: the slope at 0.
        channels: the number of channels for one set of parameters per channel; ``None`` for one set
            in all.
        dim: the channel dimension of the input.
        device: the device of the parameters.
        dtype: the dtype of the parameters.
    """

    expression = staticmethod(_xielu)

    def __init__(
        self,
        *,
        alpha_p: float = 0.8,
        alpha_n: float = 0.8,
        beta: float = 0.5,
        channels: int | None = None,
        dim: int = 1,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        self.beta = check_number("xielu", "beta", beta)
        check_number("xielu", "alpha_p", alpha_p, above=0.0)
        check_number("xielu", "alpha_n", alpha_n, above=beta)
        super().__init__(
            alpha_p=_inverse_softplus(alpha_p),
            alpha_n=_inverse_softplus(alpha_n - beta),
            channels=channels,
            dim=dim,
            device=device,
            dtype=dtype,
            beta=beta,
        )
        self.options |= {"alpha_p": alpha_p, "alpha_n": alpha_n}
