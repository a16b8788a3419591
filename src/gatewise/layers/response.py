"""The plain response inside a phase selective layer.

A linear map or a convolution with torch's arguments, checked.

The layers are not subclasses of ``nn.Conv2d`` and ``nn.Linear``: a tool that folds, prunes or
quantises those would take such a layer for a plain one and silently change its function.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.errors import ArgumentError
from gatewise.layers.any_size import Respond, at_any_size
from gatewise.units import (
    cast_like_input,
    check_choice,
    check_count,
    check_input,
    is_sequence,
    is_size,
)

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")
_CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d}

Size = int | Sequence[int]


class Response(nn.Module):
    """Shapes and checks of a layer with outputs in ``groups`` that each see their own share of the inputs."""

    spatial: ClassVar[int] = 0
    weight_shape: tuple[int, ...]
    groups: int
    inputs: int

    @property
    def layer(self) -> str:
        """What errors call this layer."""
        return type(self).__name__

    @property
    def outputs(self) -> int:
        """How many channels or features the layer returns."""
        return self.weight_shape[0]

    @property
    def fan_in(self) -> int:
        """How many inputs one output sees."""
        return math.prod(self.weight_shape[1:])

    @property
    def channel_dim(self) -> int:
        """The channel dimension, counted from the end, with or without a batch dimension."""
        return -1 - self.spatial

    def prepare(self, x: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        """``x``, checked and padded, and ``weights``, all in the dtype the response is computed in."""
        self.check_shape(check_input(self.layer, x))
        for weight in weights:
            if weight.dtype != x.dtype or weight.device != x.device:
                cast_like_input(self.layer, "weight", weight, x)
        dtype = x.dtype
        for weight in weights:
            dtype = torch.promote_types(dtype, weight.dtype)
        return tuple(part.to(dtype) for part in (self.pad(x), *weights))

    def check_shape(self, x: Tensor) -> None:
        """An error if ``x`` is not an input of this layer."""
        raise NotImplementedError

    def pad(self, x: Tensor) -> Tensor:
        """``x`` with the padding that the response itself does not do."""
        return x

    def respond(
        self, x: Tensor, weight: Tensor, bias: Tensor | None = None, groups: int | None = None
    ) -> Tensor:
        """The plain layer's output for a prepared ``x``.

        ``groups`` where it is not the layer's own.
        """
        raise NotImplementedError

    def at_any_size(self, respond: Respond, x: Tensor, bias: Tensor | None) -> Tensor:
        """``respond(x, bias)``, made of responses to a prepared ``x``, without overflow on the way."""
        bias = None if bias is None else bias.to(x.dtype)
        return at_any_size(respond, x, bias, dims=1 + self.spatial)

    def plain_response(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The plain layer's output for a prepared ``x`` of any size."""
        return self.at_any_size(lambda x, bias: self.respond(x, weight, bias), x, bias)


class LinearResponse(Response):
    """``F.linear`` of inputs ``(*, N)``."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.in_features = self.inputs = check_count(
            self.layer, "in_features", in_features, least=1
        )
        self.out_features = check_count(self.layer, "out_features", out_features, least=1)
        self.weight_shape = (out_features, in_features)
        self.groups = 1

    def check_shape(self, x: Tensor) -> None:
        if x.dim() < 1 or x.shape[-1] != self.in_features:
            got, allowed = f"shape {tuple(x.shape)}", f"(*, {self.in_features})"
            raise ArgumentError(
                f"{self.layer}: the input has another number of features", got=got, allowed=allowed
            )

    def respond(
        self, x: Tensor, weight: Tensor, bias: Tensor | None = None, groups: int | None = None
    ) -> Tensor:
        return F.linear(x, weight, bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


class ConvolutionResponse(Response):
    """A convolution over ``spatial`` dimensions of inputs ``(N, C, *)`` or ``(C, *)``."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size,
        padding: Size | str,
        dilation: Size,
        groups: int,
        padding_mode: str,
    ) -> None:
        super().__init__()
        self.in_channels = self.inputs = check_count(
            self.layer, "in_channels", in_channels, least=1
        )
        self.out_channels = check_count(self.layer, "out_channels", out_channels, least=1)
        self.kernel_size = self._per_dimension("kernel_size", kernel_size, 1)
        self.stride = self._per_dimension("stride", stride, 1)
        self.dilation = self._per_dimension("dilation", dilation, 1)
        self.padding_mode = check_choice(self.layer, "padding_mode", padding_mode, PADDING_MODES)
        self.padding = self._check_padding(padding)
        self.groups = self._check_groups(groups)
        self.weight_shape = (out_channels, in_channels // groups, *self.kernel_size)

    def _per_dimension(self, name: str, value: Size, least: int) -> tuple[int, ...]:
        sizes = (
            (value,) * self.spatial
            if isinstance(value, int)
            else tuple(value)
            if is_sequence(value)
            else ()
        )
        if not all(is_size(size, least) for size in sizes) or len(sizes) != self.spatial:
            allowed = f"an integer >= {least}, or {self.spatial} of them"
            raise ArgumentError(
                f"{self.layer}: option {name} is not allowed", got=value, allowed=allowed
            )
        return sizes

    def _check_padding(self, padding: Size | str) -> tuple[int, ...] | str:
        if not isinstance(padding, str):
            return self._per_dimension("padding", padding, 0)
        check_choice(self.layer, "padding", padding, ("same", "valid"))
        if padding == "same" and self.stride != (1,) * self.spatial:
            raise ArgumentError(
                f"{self.layer}: padding 'same' needs stride 1", got=f"stride {self.stride}"
            )
        return padding

    def _check_groups(self, groups: int) -> int:
        check_count(self.layer, "groups", groups, least=1)
        if self.in_channels % groups or self.out_channels % groups:
            got = (
                f"groups={groups}, in_channels={self.in_channels}, out_channels={self.out_channels}"
            )
            raise ArgumentError(f"{self.layer}: groups must divide both channel counts", got=got)
        return groups

    def check_shape(self, x: Tensor) -> None:
        allowed = f"(N, {self.in_channels}, {', '.join('HW'[-self.spatial :])}), the N optional"
        got = f"shape {tuple(x.shape)}"
        if x.dim() not in (self.spatial + 1, self.spatial + 2):
            raise ArgumentError(
                f"{self.layer}: the input has the wrong number of dimensions",
                got=got,
                allowed=allowed,
            )
        if x.shape[self.channel_dim] != self.in_channels:
            raise ArgumentError(
                f"{self.layer}: the input has another channel count", got=got, allowed=allowed
            )
        sizes, edges = x.shape[-self.spatial :], self._edges()
        for axis in range(self.spatial):
            self._check_size(sizes[axis], edges[axis], self.kernel_size[axis], self.dilation[axis])

    def _check_size(self, size: int, edges: tuple[int, int], kernel: int, dilation: int) -> None:
        reach, most = dilation * (kernel - 1) + 1, max(edges)
        if size < 1 or size + sum(edges) < reach:
            allowed = f"at least {max(1, reach - sum(edges))}"
            raise ArgumentError(
                f"{self.layer}: the input is smaller than the kernel", got=size, allowed=allowed
            )
        largest = {"reflect": size - 1, "circular": size}.get(self.padding_mode, most)
        if most > largest:
            what = f"{self.layer}: padding {most} is too wide for {self.padding_mode!r} padding"
            raise ArgumentError(what, got=f"size {size}", allowed=f"padding <= {largest}")

    def _edges(self) -> list[tuple[int, int]]:
        """How many elements are added before and after, per spatial dimension."""
        if self.padding == "same":  # as torch: the odd one goes behind
            totals = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            return [(total // 2, total - total // 2) for total in totals]
        return (
            [(0, 0)] * self.spatial
            if isinstance(self.padding, str)
            else [(p, p) for p in self.padding]
        )

    def pad(self, x: Tensor) -> Tensor:
        if self._convolution_pads():
            return x
        flat = [edge for before_after in reversed(self._edges()) for edge in before_after]
        return F.pad(
            x, flat, mode="constant" if self.padding_mode == "zeros" else self.padding_mode
        )

    def _convolution_pads(self) -> bool:
        return self.padding_mode == "zeros" and all(
            before == behind for before, behind in self._edges()
        )

    def respond(
        self, x: Tensor, weight: Tensor, bias: Tensor | None = None, groups: int | None = None
    ) -> Tensor:
        padding = [before for before, _ in self._edges()] if self._convolution_pads() else 0
        convolve = _CONVOLUTIONS[self.spatial]
        return convolve(x, weight, bias, self.stride, padding, self.dilation, groups or self.groups)

    def extra_repr(self) -> str:
        shown = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        plain = {
            "padding": (0,) * self.spatial,
            "dilation": (1,) * self.spatial,
            "groups": 1,
            "padding_mode": "zeros",
        }
        extra = (
            f", {name}={getattr(self, name)!r}"
            for name, value in plain.items()
            if getattr(self, name) != value
        )
        return shown + "".join(extra)
