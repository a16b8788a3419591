"""A convolution as a linear map, with the responses that features give back, and the map's transpose."""

from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.filters.invertible_features import GivenBack
from gatewise.errors import ArgumentError

POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)


def respond(conv: Any, x: Tensor, weight: Tensor | None = None) -> Tensor:
    """The convolution of ``x`` without its bias, in float64."""
    return conv._conv_forward(x, conv.weight.detach().double() if weight is None else weight, None)


class KnownResponses:
    """Those responses of a convolution to ``x`` that are known.

    ``keep`` (n, K, *size) is 1 there, or None for all.
    """

    def __init__(self, conv: Any, x: Tensor, keep: Tensor | None) -> None:
        self.conv, self.keep, self.x = conv, keep, x
        self.weight = conv.weight.detach().double()
        response = respond(conv, x, self.weight)
        self.values = response if keep is None else response * keep
        self.count = (
            torch.full((len(x),), response[0].numel())
            if keep is None
            else keep.flatten(1).sum(1).long()
        )

    def apply(self, x: Tensor) -> Tensor:
        """The known responses to another ``x``, zero at the others."""
        response = respond(self.conv, x, self.weight)
        return response if self.keep is None else response * self.keep

    def transpose(self, values: Tensor) -> Tensor:
        """The sum of the shifted filters, each times its value."""
        given = values if self.keep is None else values * self.keep
        conv = self.conv
        if conv.padding_mode != "zeros" or isinstance(conv.padding, str):
            return torch.func.vjp(lambda x: respond(conv, x, self.weight), self.x)[1](given)[0]
        sizes = (
            conv.stride,
            conv.padding,
            conv.dilation,
            False,
            (0,) * len(conv.stride),
            conv.groups,
        )
        return torch.ops.aten.convolution_backward(
            given, self.x, self.weight, None, *sizes, (True, False, False)
        )[0]


def winners(conv: Any, x: Tensor, pool: nn.Module | None, unit: GivenBack) -> Tensor | None:
    """Where responses to ``x`` are known from the features after ``unit`` and ``pool``: 1 there.

    None is everywhere.

    A response is known from a part of the unit where that gives it back and, with pooling, won. A
    bias shifts what the unit is given, so that it counts here, but it is known.
    """
    if pool is None and unit.whole:
        return None
    y = respond(conv, x)
    if conv.bias is not None:
        y = y + conv.bias.detach().double().reshape(-1, *[1] * (y.dim() - 2))
    parts = zip(*unit.parts(y), strict=True)
    known = torch.stack([_won(feature, pool) * gives_back for feature, gives_back in parts]).amax(0)
    return None if pool is None and bool(known.all()) else known


def _won(feature: Tensor, pool: nn.Module | None) -> Tensor:
    if pool is None:
        return torch.ones_like(feature)
    where = won_indices(feature, pool)
    return (
        torch.zeros_like(feature)
        .flatten(2)
        .scatter_(2, where.flatten(2), 1.0)
        .reshape(feature.shape)
    )


def won_indices(phase: Tensor, pool: Any) -> Tensor:
    """Which place of its map was the largest in each pooling region, as an index into the flattened map."""
    dims = phase.dim() - 2
    if type(pool) is not POOLS[dims - 1]:
        raise ArgumentError(
            "reconstruct: pool must be a max-pooling of the convolution's dimension",
            got=type(pool).__name__,
            allowed=POOLS[dims - 1].__name__,
        )
    pooling = getattr(nn.functional, f"max_pool{dims}d")
    sizes = (pool.kernel_size, pool.stride, pool.padding, pool.dilation)
    return pooling(phase, *sizes, ceil_mode=pool.ceil_mode, return_indices=True)[1]
