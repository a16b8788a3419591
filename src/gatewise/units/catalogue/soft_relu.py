"""Soft-ReLU: the trainable gate of deep gated networks, applied to its own response."""

import torch
from torch import Tensor

from gatewise.checks import check_number
from gatewise.units.contract import (
    RECTIFIED,
    UnitModule,
    check_input,
    error_bounds,
    in_compute_dtype,
    promise,
    unit,
)


def soft_relu(x: Tensor, beta: float = 4.0, eps: float = 0.1) -> Tensor:
    r"""Return ``x`` times the soft gate of deep gated networks.

    .. math:: \mathrm{softReLU}(x) = x\,\chi_\epsilon(x), \qquad
        \chi_\epsilon(x) = (1 + \epsilon)\,\sigma(\beta x)

    Equal to ``(1 + eps) * swish(x, beta)``. The paper says that gates lie in [0, 1]; this gate
    reaches ``1 + eps``.

    Args:
        x: the input, a real floating point tensor.
        beta: the steepness of the gate, positive.
        eps: the excess of the gate above 1, more than -1.

    Shape: ``(*) -> (*)``.

    Lakshminarayanan and Singh, 2020, "Deep Gated Networks", arXiv:2002.03996.
    """
    check_input("soft_relu", x)
    beta = check_number("soft_relu", "beta", beta, above=0.0)
    eps = check_number("soft_relu", "eps", eps, above=-1.0)
    return in_compute_dtype(_soft_relu, x, beta, eps)


def _soft_relu(x: Tensor, beta: float, eps: float) -> Tensor:
    return (1 + eps) * x * torch.sigmoid(beta * x)


@unit(
    name="soft_relu",
    title="Soft rectifier of deep gated networks",
    family="soft",
    on="x > 0",
    function=soft_relu,
    formula=r"(1 + \epsilon)\,x\,\sigma(\beta x)",
    paper="Lakshminarayanan and Singh, 2020 (arXiv:2002.03996)",
    studied_in=("dgn",),
    reference=lambda x, beta=4.0, eps=0.1: (1 + eps) * x * torch.special.expit(beta * x),
    limits=RECTIFIED,
    largest=1e38,
    error=error_bounds(
        float32=promise(4, 2**-23, back_absolute=2**-18),
    ),
    samples=({}, {"beta": 1.0, "eps": 0.4}),
)
class SoftReLU(UnitModule):
    """Module form of :func:`soft_relu`.

    Args:
        beta: the steepness of the gate, positive.
        eps: the excess of the gate above 1, more than -1.
    """

    expression = staticmethod(_soft_relu)

    beta: float
    eps: float
