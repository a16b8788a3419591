"""A convolution as a linear map with a transpose, restricted to known responses."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.filters.filter_rows import CONVOLUTIONS
from gatewise.analysis.filters.invertible_features import InvertibleFeatures
from gatewise.errors import ArgumentError

POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)


def linear_response(conv: Any, x: Tensor, weight: Tensor | None = None) -> Tensor:
    """The convolution of ``x`` without its bias, in float64.

    Args:
        conv: the convolution.
        x: inputs (n, C, *size), float64.
        weight: the weight in float64, to avoid a conversion; that of ``conv`` if None.
    """
    weight = conv.weight.detach().double() if weight is None else weight
    return conv._conv_forward(x, weight, None)


class KnownResponses:
    """The known responses of a convolution to ``x``, as a linear map of ``x``."""

    def __init__(self, conv: Any, x: Tensor, keep: Tensor | None) -> None:
        """Compute the known responses.

        Args:
            conv: the convolution; its bias is not used.
            x: inputs (n, C, *size), float64.
            keep: (n, K, *size), 1 where a response is known and 0 elsewhere; None if all are.
        """
        self.conv = conv
        self.keep = keep
        self.x = x
        self.weight = conv.weight.detach().double()
        self.values = self.apply(x)
        if keep is None:
            self.count = torch.full((len(x),), self.values[0].numel())
        else:
            self.count = keep.flatten(1).sum(1).long()

    def apply(self, x: Tensor) -> Tensor:
        """The known responses to another ``x``, and zero where they are unknown."""
        response = linear_response(self.conv, x, self.weight)
        return response if self.keep is None else response * self.keep

    def transpose(self, values: Tensor) -> Tensor:
        """The sum of the shifted filters, each times its value."""
        if self.keep is not None:
            values = values * self.keep
        conv = self.conv
        if conv.padding_mode != "zeros" or isinstance(conv.padding, str):
            respond = partial(linear_response, conv, weight=self.weight)
            _, pull_back, *_ = torch.func.vjp(respond, self.x)
            return pull_back(values)[0]
        no_output_padding = (0,) * len(conv.stride)
        return torch.ops.aten.convolution_backward(
            values,
            self.x,
            self.weight,
            None,
            conv.stride,
            conv.padding,
            conv.dilation,
            False,
            no_output_padding,
            conv.groups,
            (True, False, False),
        )[0]


def read_places(conv: Any, size: tuple[int, ...], pool: Any = None) -> Tensor:
    """Return which places of an input reach the output of a layer, as truth values of ``size``.

    A convolution with a stride may end before the border, or leave gaps. So may a pooling.

    Args:
        conv: the convolution.
        size: the spatial size of the input.
        pool: a max-pooling after the convolution.
    """
    groups = conv.groups
    weight = torch.ones(groups, conv.in_channels // groups, *conv.kernel_size, dtype=torch.float64)
    x = torch.zeros(1, conv.in_channels, *size, dtype=torch.float64)
    response, pull_back, *_ = torch.func.vjp(partial(linear_response, conv, weight=weight), x)
    kept = torch.ones_like(response)
    if pool is not None:
        for axis, count in enumerate(pooling_indices(response, pool).shape[2:]):
            line = _pooled_places(pool, axis, count, response.shape[2 + axis])
            kept *= line.reshape([-1 if dim == 2 + axis else 1 for dim in range(x.dim())])
    return pull_back(kept)[0][0, 0] > 0


def _pooled_places(pool: Any, axis: int, count: int, size: int) -> Tensor:
    """Return which places along one dimension are in one of ``count`` pooling regions."""
    kernel, stride, padding, dilation = (
        value if isinstance(value, int) else value[axis]
        for value in (pool.kernel_size, pool.stride, pool.padding, pool.dilation)
    )
    starts = stride * torch.arange(count)[:, None] - padding
    places = (starts + dilation * torch.arange(kernel)).flatten()
    places = places[(places >= 0) & (places < size)]
    return torch.zeros(size, dtype=torch.float64).index_fill(0, places, 1.0)


def empty_like(conv: Any, *, bias: bool) -> Any:
    """Return a new convolution of torch with the options of ``conv``, and other weights.

    Args:
        conv: A convolution of torch, or of a class that is derived from one.
        bias: Whether the new one has a bias.
    """
    kind: Any = next(kind for kind in CONVOLUTIONS if isinstance(conv, kind))
    return kind(
        conv.in_channels,
        conv.out_channels,
        conv.kernel_size,
        conv.stride,
        conv.padding,
        conv.dilation,
        conv.groups,
        bias=bias,
        padding_mode=conv.padding_mode,
    )


def biased_response(conv: Any, x: Tensor) -> Tensor:
    """The convolution of ``x`` with its bias, in float64."""
    response = linear_response(conv, x)
    if conv.bias is None:
        return response
    return response + conv.bias.detach().double().reshape(-1, *[1] * (response.dim() - 2))


def known_mask(
    conv: Any,
    x: Tensor,
    pool: nn.Module | None,
    unit: InvertibleFeatures,
) -> Tensor | None:
    """Where the responses to ``x`` are known from the features after ``unit`` and ``pool``.

    A response is known if a feature of the unit determines it and, with pooling, is the largest of
    its pooling region. The bias decides which features these are. It is known, so the unknown is
    the response without it.

    Returns:
        (n, K, *size), 1 where a response is known; None if all are.
    """
    if pool is None and unit.complete:
        return None
    features, invertible = unit.parts(biased_response(conv, x))
    masks = []
    for feature, mask in zip(features, invertible, strict=True):
        masks.append(_is_pooled(feature, pool) * mask)
    known = torch.stack(masks).amax(0)
    if pool is None and bool(known.all()):
        return None
    return known


def _is_pooled(feature: Tensor, pool: nn.Module | None) -> Tensor:
    """1 where a feature is the largest of its pooling region."""
    if pool is None:
        return torch.ones_like(feature)
    indices = pooling_indices(feature, pool).flatten(2)
    return torch.zeros_like(feature).flatten(2).scatter_(2, indices, 1.0).reshape(feature.shape)


def pooling_indices(feature: Tensor, pool: Any) -> Tensor:
    """The place of the largest number of each pooling region, as an index of the flattened map."""
    dims = feature.dim() - 2
    if type(pool) is not POOLS[dims - 1]:
        raise ArgumentError(
            "reconstruct: pool must be a max-pooling of the convolution's dimension",
            got=type(pool).__name__,
            allowed=POOLS[dims - 1].__name__,
        )
    pooling = getattr(nn.functional, f"max_pool{dims}d")
    sizes = (pool.kernel_size, pool.stride, pool.padding, pool.dilation)
    return pooling(feature, *sizes, ceil_mode=pool.ceil_mode, return_indices=True)[1]
