"""Linear and convolution responses: the base classes of layers that build on a plain layer.

Note [Constructors]. The constructor of a layer has the sizes of the plain layer, which
``set_sizes`` of its kind takes, and the options of the layer, which its ``build`` takes. As in
torch, ``padding_mode`` stands behind ``bias``.

The layers are not subclasses of ``nn.Conv2d`` and ``nn.Linear``. A tool that folds, prunes or
quantises those would take such a layer for a plain one and silently change its function.
"""

import inspect
import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.checks import check_choice, check_count, check_flag
from gatewise.errors import ArgumentError
from gatewise.layers.any_size import Respond, at_any_size
from gatewise.layers.windows import Sizes, read_sizes
from gatewise.units import (
    Axis,
    Device,
    DType,
    LeafModule,
    allocating,
    axes_of,
    bind_options,
    cast_like_input,
    check_input,
)

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")
LINEAR_OPTIONS = ("in_features", "out_features")
CONVOLUTION_OPTIONS = (
    "in_channels",
    "out_channels",
    "kernel_size",
    "stride",
    "padding",
    "dilation",
    "groups",
    "padding_mode",
)
_CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d}


def layer_options(layer: Any) -> dict[str, Any]:
    """Return the constructor arguments for a layer of the same sizes.

    Args:
        layer: a linear or convolution layer, torch's or one of this package.

    Returns:
        Sizes, ``bias`` and ``padding_mode`` by name.
    """
    names = LINEAR_OPTIONS if hasattr(layer, "in_features") else CONVOLUTION_OPTIONS
    options = {name: getattr(layer, name) for name in names}
    options["bias"] = layer.bias is not None
    return options


class Response(LeafModule):
    """A layer whose outputs are in groups, and see only the inputs of their group."""

    spatial: ClassVar[int] = 0  # the number of dimensions after the channels
    has_filters: ClassVar[bool] = False  # whether `weight` counts in `orthogonality_penalty`
    weight_shape: tuple[int, ...]  # (out, in / groups, *kernel)
    groups: int
    inputs: int  # the number of input channels or features
    set_sizes: Callable[..., None]  # of a kind of layers: check and set the sizes
    build: Callable[..., None]  # of a layer: register and draw the parameters

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        own = "__init__" in vars(cls) or not (hasattr(cls, "set_sizes") and hasattr(cls, "build"))
        cls.__signature__ = None if own else _constructor(cls)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__()
        given = bind_options(self.layer, _constructor(type(self)), *args, **options)
        sizes = inspect.signature(self.set_sizes).parameters
        self.set_sizes(**{name: given.pop(name) for name in sizes})
        self.build(**given)

    @property
    def layer(self) -> str:
        """The name of this layer in error messages."""
        return type(self).__name__

    @property
    def outputs(self) -> int:
        """The number of channels or features that the layer returns."""
        return self.weight_shape[0]

    @property
    def fan_in(self) -> int:
        """The number of inputs that one output sees."""
        return math.prod(self.weight_shape[1:])

    @property
    def channel_dim(self) -> int:
        """The channel dimension, counted from the end, with or without a batch dimension."""
        return -1 - self.spatial

    def add_weight(
        self,
        name: str,
        shape: tuple[int, ...],
        device: Device,
        dtype: DType,
    ) -> None:
        """Register a parameter without setting its values."""
        with allocating(self.layer, device, dtype):
            weight = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.register_parameter(name, weight)

    def add_bias(
        self,
        bias: bool,
        device: Device,
        dtype: DType,
        name: str = "bias",
    ) -> None:
        """Register one number per output without setting it, or ``None`` if ``bias`` is False."""
        if check_flag(self.layer, "bias", bias):
            self.add_weight(name, (self.outputs,), device, dtype)
        else:
            self.register_parameter(name, None)

    def reset_uniform(self, name: str) -> None:
        """Draw a weight or bias as torch's layers do: uniform with variance ``1 / (3 fan_in)``."""
        values = getattr(self, name)
        if values is not None:
            nn.init.uniform_(values, -(self.fan_in**-0.5), self.fan_in**-0.5)

    def prepare(self, x: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        """Check and pad ``x``.

        Returns:
            ``x`` and the weights, all in the dtype in which the response is computed.
        """
        self.check_shape(check_input(self.layer, x))
        dtype = x.dtype
        for weight in weights:
            # Raises if a weight is wider than the input or on another device.
            if weight.dtype != x.dtype or weight.device != x.device:
                cast_like_input(self.layer, "weight", weight, x)
            dtype = torch.promote_types(dtype, weight.dtype)
        return tuple(part.to(dtype) for part in (self.pad(x), *weights))

    def check_shape(self, x: Tensor) -> None:
        """Raise an error if ``x`` is not an input of this layer."""
        raise NotImplementedError

    def pad(self, x: Tensor) -> Tensor:
        """Add the padding that :meth:`respond` does not add itself."""
        return x

    def respond(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        groups: int | None = None,
    ) -> Tensor:
        """Return the plain layer's output for a prepared ``x``.

        ``groups`` replaces the layer's number of groups.
        """
        raise NotImplementedError

    def at_any_size(self, respond: Respond, x: Tensor, bias: Tensor | None) -> Tensor:
        """Return ``respond(x, bias)`` for a prepared ``x``, without overflow in between."""
        bias = None if bias is None else bias.to(x.dtype)
        return at_any_size(respond, x, bias, dims=1 + self.spatial)

    def plain_response(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return the plain layer's output for a prepared ``x`` of any size."""
        return self.at_any_size(lambda x, bias: self.respond(x, weight, bias), x, bias)


def _constructor(layer: type[Response]) -> inspect.Signature:
    """Return the signature of a layer's constructor. See Note [Constructors]."""
    sizes = dict(inspect.signature(layer.set_sizes).parameters)
    mode = sizes.pop("padding_mode", None)
    parameters = list(sizes.values())[1:]
    for option in list(inspect.signature(layer.build).parameters.values())[1:]:
        parameters.append(option)
        if option.name == "bias" and mode is not None:
            parameters.append(mode.replace(kind=option.kind))
    return inspect.Signature(parameters, return_annotation=None)


class LinearResponse(Response):
    """``F.linear`` of inputs ``(*, N)``."""

    def set_sizes(self, in_features: int, out_features: int) -> None:
        """Check and set the sizes of a linear layer."""
        self.in_features = check_count(self.layer, "in_features", in_features, least=1)
        self.out_features = check_count(self.layer, "out_features", out_features, least=1)
        self.inputs = in_features
        self.weight_shape = (out_features, in_features)
        self.groups = 1

    def check_shape(self, x: Tensor) -> None:
        """Raise an error if the last dimension is not ``in_features``."""
        if x.dim() < 1 or x.shape[-1] != self.in_features:
            raise ArgumentError(
                f"{self.layer}: wrong number of input features",
                got=f"shape {tuple(x.shape)}",
                allowed=f"(*, {self.in_features})",
            )

    def respond(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        groups: int | None = None,
    ) -> Tensor:
        """Return ``W x + b``."""
        return F.linear(x, weight, bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


class ConvolutionResponse(Response):
    """A convolution over ``spatial`` dimensions of inputs ``(N, C, *)`` or ``(C, *)``."""

    def set_sizes(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
    ) -> None:
        """Check and set the sizes of a convolution."""
        self.in_channels = check_count(self.layer, "in_channels", in_channels, least=1)
        self.out_channels = check_count(self.layer, "out_channels", out_channels, least=1)
        self.inputs = in_channels
        self.kernel_size = self._sizes("kernel_size", kernel_size, 1)
        self.stride = self._sizes("stride", stride, 1)
        self.dilation = self._sizes("dilation", dilation, 1)
        self.padding_mode = check_choice(self.layer, "padding_mode", padding_mode, PADDING_MODES)
        self.padding = self._check_padding(padding)
        self.groups = self._check_groups(groups)
        self.weight_shape = (out_channels, in_channels // groups, *self.kernel_size)

    def _sizes(self, name: str, value: Sizes, least: int) -> tuple[int, ...]:
        return read_sizes(self.layer, name, value, self.spatial, least=least)

    def _check_padding(self, padding: Sizes | str) -> tuple[int, ...] | str:
        if not isinstance(padding, str):
            return self._sizes("padding", padding, 0)
        check_choice(self.layer, "padding", padding, ("same", "valid"))
        if padding == "same" and self.stride != (1,) * self.spatial:
            raise ArgumentError(
                f"{self.layer}: padding 'same' needs stride 1", got=f"stride {self.stride}"
            )
        return padding

    def _check_groups(self, groups: int) -> int:
        check_count(self.layer, "groups", groups, least=1)
        if self.in_channels % groups or self.out_channels % groups:
            raise ArgumentError(
                f"{self.layer}: groups must divide both channel counts",
                got=f"groups={groups}, in_channels={self.in_channels}, "
                f"out_channels={self.out_channels}",
            )
        return groups

    def check_shape(self, x: Tensor) -> None:
        """Raise an error for a wrong rank or channel count, or an input smaller than the kernel."""
        letters = ", ".join("HW"[-self.spatial :])
        allowed = f"(N, {self.in_channels}, {letters}) or ({self.in_channels}, {letters})"
        got = f"shape {tuple(x.shape)}"
        if x.dim() not in (self.spatial + 1, self.spatial + 2):
            raise ArgumentError(
                f"{self.layer}: wrong number of input dimensions",
                got=got,
                allowed=allowed,
            )
        if x.shape[self.channel_dim] != self.in_channels:
            raise ArgumentError(
                f"{self.layer}: wrong number of input channels",
                got=got,
                allowed=allowed,
            )
        for size, axis in zip(x.shape[-self.spatial :], axes_of(self), strict=True):
            self._check_size(size, axis)

    def _check_size(self, size: int, axis: Axis) -> None:
        padded = axis.before + axis.after
        if size < 1 or size + padded < axis.extent:
            raise ArgumentError(
                f"{self.layer}: the input is smaller than the kernel",
                got=size,
                allowed=f"at least {max(1, axis.extent - padded)}",
            )
        width = max(axis.before, axis.after)
        # As torch: reflection needs a further element, wrapping around needs as many.
        most = {"reflect": size - 1, "circular": size}.get(self.padding_mode, width)
        if width > most:
            raise ArgumentError(
                f"{self.layer}: padding {width} is too wide for {self.padding_mode!r} padding",
                got=f"size {size}",
                allowed=f"padding <= {most}",
            )

    def pad(self, x: Tensor) -> Tensor:
        """Add a padding that is not zeros, or not the same on both sides."""
        if self._convolution_pads():
            return x
        edges: list[int] = []
        # F.pad takes the last axis first.
        for axis in reversed(axes_of(self)):
            edges += [axis.before, axis.after]
        mode = "constant" if self.padding_mode == "zeros" else self.padding_mode
        return F.pad(x, edges, mode=mode)

    def _convolution_pads(self) -> bool:
        """Whether torch's convolution can add the padding itself."""
        symmetric = all(axis.before == axis.after for axis in axes_of(self))
        return self.padding_mode == "zeros" and symmetric

    def respond(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        groups: int | None = None,
    ) -> Tensor:
        """Return the convolution of ``x`` with ``weight``, plus the bias."""
        convolve = _CONVOLUTIONS[self.spatial]
        return convolve(x, weight, bias, *self.geometry(), groups or self.groups)

    def geometry(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Return stride, padding on both sides and dilation of torch's convolution."""
        padding = [0] * self.spatial
        if self._convolution_pads():
            padding = [axis.before for axis in axes_of(self)]
        return self.stride, tuple(padding), self.dilation

    def extra_repr(self) -> str:
        shown = [
            f"{self.in_channels}",
            f"{self.out_channels}",
            f"kernel_size={self.kernel_size}",
            f"stride={self.stride}",
        ]
        defaults = {
            "padding": (0,) * self.spatial,
            "dilation": (1,) * self.spatial,
            "groups": 1,
            "padding_mode": "zeros",
        }
        for name, default in defaults.items():
            if getattr(self, name) != default:
                shown.append(f"{name}={getattr(self, name)!r}")
        return ", ".join(shown)
