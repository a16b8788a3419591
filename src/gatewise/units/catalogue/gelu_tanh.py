"""The tanh form of GELU, which GPT-2 and Gemma use."""

import math
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from gatewise.units.contract import (
    RECTIFIED,
    UnitModule,
    check_input,
    error_bounds,
    promise,
    unit,
)

_gelu_tanh = partial(functional.gelu, approximate="tanh")


def gelu_tanh(x: Tensor) -> Tensor:
    r"""Return the approximation of :func:`gelu` by a hyperbolic tangent.

    .. math:: \frac{x}{2}\left(1 + \tanh\left(\sqrt{2 / \pi}\,(x + 0.044715\,x^3)\right)\right)

    It differs from GELU by up to 4.7e-4.

    Args:
        x: the input, a real floating point tensor.

    Shape: ``(*) -> (*)``.

    Hendrycks and Gimpel, 2016, "Gaussian Error Linear Units", arXiv:1606.08415.
    """
    return _gelu_tanh(check_input("gelu_tanh", x))


def _reference(x: Tensor) -> Tensor:
    near = x.clamp(-30, 30)
    return x * torch.special.expit(math.sqrt(8 / math.pi) * (near + 0.044715 * near**3))


@unit(
    name="gelu_tanh",
    title="Gaussian error linear unit, tanh form",
    family="smooth",
    on="x > 0",
    function=gelu_tanh,
    formula=r"\frac{x}{2}\,(1 + \tanh(\sqrt{2 / \pi}\,(x + 0.044715\,x^3)))",
    paper="Hendrycks and Gimpel, 2016 (arXiv:1606.08415)",
    reference=_reference,
    limits=RECTIFIED,
    largest=1e12,
    error=error_bounds(
        half=promise(1, 2**-19),
        float32=promise(4, 2**-19),
    ),
)
class GELUTanh(UnitModule):
    """Module form of :func:`gelu_tanh`."""

    expression = staticmethod(_gelu_tanh)
    fusable = False
