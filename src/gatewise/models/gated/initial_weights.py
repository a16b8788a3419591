"""First weights of deep gated networks: all of the same size, or of the same variance."""

import math
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from gatewise.units import check_number

Draw = Callable[[Tensor, float, torch.Generator | None], object]


def _signs(weight: Tensor, sigma: float, generator: torch.Generator | None) -> None:
    weight.bernoulli_(0.5, generator=generator).mul_(2).sub_(1).mul_(sigma)


def _normal(weight: Tensor, sigma: float, generator: torch.Generator | None) -> None:
    weight.normal_(0.0, sigma, generator=generator)


def _uniform(weight: Tensor, sigma: float, generator: torch.Generator | None) -> None:
    weight.uniform_(-math.sqrt(3) * sigma, math.sqrt(3) * sigma, generator=generator)


def weight_of(layer: nn.Module) -> Tensor:
    """A layer's weight: a parameter, or the tensor that a functional call has put in its place."""
    return cast(Tensor, layer.weight)


INITIAL: dict[str, Draw] = {"bernoulli": _signs, "normal": _normal, "uniform": _uniform}


def sigmas(
    network: str, layers: nn.ModuleList, sigma: float | None, mu: float
) -> tuple[float, ...]:
    r"""The standard deviation of each layer's weights.

    By default :math:`\sqrt{1 / (\mu w)}`, where ``w`` is how many weights meet in a unit, and for
    the first layer how many leave an input: then the paths from an input have strengths whose
    squares add up to 1 on average, whatever the widths. With equal widths that is the paper's
    single sigma.
    """
    if sigma is not None:
        return (check_number(network, "sigma", sigma, above=0.0),) * len(layers)
    first, *others = map(weight_of, layers)
    meeting = [first.numel() // first.shape[1], *(weight[0].numel() for weight in others)]
    return tuple(math.sqrt(1 / (mu * count)) for count in meeting)


@torch.no_grad()
def draw(
    layers: nn.ModuleList, init: str, sizes: tuple[float, ...], generator: torch.Generator | None
) -> None:
    """Fill the weights of ``layers``."""
    for layer, sigma in zip(layers, sizes, strict=False):
        INITIAL[init](weight_of(layer), sigma, generator)
