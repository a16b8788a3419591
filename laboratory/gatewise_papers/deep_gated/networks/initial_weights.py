"""Initial weights of deep gated networks."""

import math
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from gatewise.checks import check_number

Draw = Callable[[Tensor, float, torch.Generator | None], object]


def _signs(weight: Tensor, sigma: float, generator: torch.Generator | None) -> None:
    weight.bernoulli_(0.5, generator=generator).mul_(2).sub_(1).mul_(sigma)


def _normal(weight: Tensor, sigma: float, generator: torch.Generator | None) -> None:
    weight.normal_(0.0, sigma, generator=generator)


def _uniform(weight: Tensor, sigma: float, generator: torch.Generator | None) -> None:
    weight.uniform_(-math.sqrt(3) * sigma, math.sqrt(3) * sigma, generator=generator)


def weight_of(layer: nn.Module) -> Tensor:
    """Return a layer's weight: a parameter, or what a functional call put in its place."""
    return cast(Tensor, layer.weight)


INITIAL: dict[str, Draw] = {"bernoulli": _signs, "normal": _normal, "uniform": _uniform}


def sigmas(
    network: str,
    layers: nn.ModuleList,
    sigma: float | None,
    mu: float,
) -> tuple[float, ...]:
    r"""Return the standard deviation of each layer's weights.

    By default it is :math:`\sqrt{1 / (\mu w)}`, where ``w`` is the number of weights of a unit; for
    the first layer, the number of weights of an input. Then the strengths of the paths from an
    input have squares that add up to 1 on average, for all widths. With equal widths this is the
    paper's single sigma.

    Args:
        network: the name of the network, for messages.
        layers: the layers.
        sigma: one standard deviation for all layers, if given.
        mu: the probability that a gate is open.
    """
    if sigma is not None:
        return (check_number(network, "sigma", sigma, above=0.0),) * len(layers)
    # numel / shape[1] counts the weights that leave an input; weight[0].numel() those of a unit.
    first, *others = map(weight_of, layers)
    meeting = [first.numel() // first.shape[1], *(weight[0].numel() for weight in others)]
    return tuple(math.sqrt(1 / (mu * count)) for count in meeting)


@torch.no_grad()
def draw(
    layers: nn.ModuleList,
    init: str,
    sizes: tuple[float, ...],
    generator: torch.Generator | None,
) -> None:
    """Draw the weights of ``layers``.

    Args:
        layers: the layers.
        init: one of ``INITIAL``.
        sizes: the standard deviation of each layer.
        generator: torch's own if ``None``.
    """
    for layer, sigma in zip(layers, sizes, strict=False):
        INITIAL[init](weight_of(layer), sigma, generator)
