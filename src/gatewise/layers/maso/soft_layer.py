"""Soft layers: linear and convolution layers that return the gate, a sigmoid, tanh or softmax."""

import copy
from typing import Any, ClassVar, Literal, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.errors import ArgumentError
from gatewise.layers.any_size import at_any_size
from gatewise.layers.windows import Sizes, read_sizes
from gatewise.units import (
    Device,
    DType,
    allocating,
    cast_like_input,
    check_choice,
    check_count,
    check_flag,
    check_input,
    replace_infinities,
    sigmoid,
    to_compute_dtype,
)

Gate = Literal["sigmoid", "tanh", "softmax"]
GATES = ("sigmoid", "tanh", "softmax")
Soft = TypeVar("Soft", bound="SoftLinear | SoftConv1d | SoftConv2d")
Plain = TypeVar("Plain", bound=nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d)


class SoftLinear(nn.Linear):
    r"""A linear layer that returns the probability that its input lies in a region.

    .. math:: u = W z + b, \qquad y = \sigma(u), \quad y = \tanh(u) = 2\sigma(2u) - 1,
        \quad\text{or}\quad y = \mathrm{softmax}(u)

    ``gate="sigmoid"`` is the soft selection of the active region of ``relu(u)``, unit by unit
    (Proposition 5). ``gate="softmax"`` is the soft selection of the maximum over all units
    (Proposition 6). ``gate="tanh"`` is the first up to scale and shift, see
    :func:`tanh_as_sigmoid`. Parameters ``weight`` and ``bias`` are those of
    :class:`torch.nn.Linear`.

    Args:
        in_features: the number of input features.
        out_features: the number of output features.
        bias: whether every output has a trainable bias.
        gate: ``"sigmoid"``, ``"tanh"`` or ``"softmax"``.
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``(*, in_features) -> (*, out_features)``.

    Balestriero and Baraniuk, 2019, "From Hard to Soft: Understanding Deep Network Nonlinearities
    via Vector Quantization and Statistical Inference", arXiv:1810.09274, section 3.5.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        gate: Gate = "sigmoid",
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        _check_sizes("SoftLinear", in_features=in_features, out_features=out_features)
        check_choice("SoftLinear", "gate", gate, GATES)
        check_flag("SoftLinear", "bias", bias)
        with allocating("SoftLinear", device, dtype):
            super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.gate: Gate = gate

    def forward(self, input: Tensor) -> Tensor:
        x = check_input("SoftLinear", input)
        if x.dim() < 1 or x.shape[-1] != self.in_features:
            _refuse_shape("SoftLinear", x, f"(*, {self.in_features})")
        weight, bias = _weights(self, x)
        response = at_any_size(lambda x, bias: F.linear(x, weight, bias), to_compute_dtype(x), bias)
        return _open(self.gate, response, -1).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, gate={self.gate!r}"


class _SoftConv(nn.modules.conv._ConvNd):
    """The base of the 1-d and the 2-d convolution, in front of torch's class."""

    axes: ClassVar[int]
    gate: Gate

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        gate: Gate = "sigmoid",
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        name = type(self).__name__
        _check_sizes(name, in_channels=in_channels, out_channels=out_channels, groups=groups)
        for option, value in (
            ("kernel_size", kernel_size),
            ("stride", stride),
            ("dilation", dilation),
        ):
            read_sizes(name, option, value, self.axes, least=1)
        if not isinstance(padding, str):
            read_sizes(name, "padding", padding, self.axes, least=0)
        check_flag(name, "bias", bias)
        check_choice(name, "gate", gate, GATES)
        sizes = (
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
        )
        with allocating(name, device, dtype):
            try:
                cast(Any, super()).__init__(*sizes, device=device, dtype=dtype)
            except ValueError as error:
                raise ArgumentError(
                    f"{name}: torch refuses these options", got=str(error)
                ) from None
        self.gate = gate

    def forward(self: Any, input: Tensor) -> Tensor:
        name, x = type(self).__name__, check_input(type(self).__name__, input)
        _check_maps(name, self, x, self.axes)
        weight, bias = _weights(self, x)
        response = at_any_size(
            lambda x, bias: self._conv_forward(x, weight, bias),
            to_compute_dtype(x),
            bias,
            dims=1 + self.axes,
        )
        return _open(self.gate, response, -1 - self.axes).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, gate={self.gate!r}"


class SoftConv1d(_SoftConv, nn.Conv1d):
    """:class:`SoftLinear` as a convolution over sequences. Softmax is over channels.

    Args:
        in_channels: the number of input channels.
        out_channels: the number of output channels.
        kernel_size: the size of the kernel, one integer or one per dimension.
        stride: the step from patch to patch, one integer or one per dimension.
        padding: the padding on both sides, one integer or one per dimension, or ``"same"`` or
            ``"valid"``.
        dilation: the distance between elements of the kernel, one integer or one per dimension.
        groups: the number of groups; outputs of a group see only the inputs of that group.
        bias: whether every output has a trainable bias.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        gate: ``"sigmoid"``, ``"tanh"`` or ``"softmax"``.
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``(N, C, L)`` or ``(C, L)``.
    """

    axes = 1


class SoftConv2d(_SoftConv, nn.Conv2d):
    """:class:`SoftLinear` as a convolution over maps. Softmax is over channels.

    Args:
        in_channels: the number of input channels.
        out_channels: the number of output channels.
        kernel_size: the size of the kernel, one integer or one per dimension.
        stride: the step from patch to patch, one integer or one per dimension.
        padding: the padding on both sides, one integer or one per dimension, or ``"same"`` or
            ``"valid"``.
        dilation: the distance between elements of the kernel, one integer or one per dimension.
        groups: the number of groups; outputs of a group see only the inputs of that group.
        bias: whether every output has a trainable bias.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        gate: ``"sigmoid"``, ``"tanh"`` or ``"softmax"``.
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``(N, C, H, W)`` or ``(C, H, W)``.
    """

    axes = 2


def tanh_as_sigmoid(layer: Soft, following: Plain) -> tuple[Soft, Plain]:
    r"""Return two new layers that compute the same, with a sigmoid in place of the tanh.

    .. math:: V \tanh(W z + b) + c = 2V\, \sigma(2W z + 2b) + (c - V \mathbf{1})

    The print shifts the following bias by 1. Right is the row sum of the following weight before
    doubling, and this layer's bias is doubled too.

    Args:
        layer: a soft layer with ``gate="tanh"``.
        following: the linear or convolution layer after it. A convolution must not pad with zeros,
            because zeros of tanh are not zeros of the sigmoid.

    Returns:
        The two new layers.

    Balestriero and Baraniuk, 2019, arXiv:1810.09274, appendix E.6.
    """
    _check_pair(layer, following)
    first, second = copy.deepcopy(layer), copy.deepcopy(following)
    first.gate = "sigmoid"
    with torch.no_grad():
        shift = following.weight.double().flatten(1).sum(1)
        old = torch.zeros_like(shift) if following.bias is None else following.bias.double()
        second.bias = nn.Parameter((old - shift).to(following.weight.dtype))
        for doubled in (*first.parameters(), second.weight):
            doubled.mul_(2)
    return first, second


def _check_pair(layer: nn.Module, following: nn.Module) -> None:
    if not isinstance(layer, SoftLinear | SoftConv1d | SoftConv2d) or layer.gate != "tanh":
        raise ArgumentError(
            "tanh_as_sigmoid: the first layer must be a soft layer with gate='tanh'", got=layer
        )
    if not isinstance(following, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d):
        raise ArgumentError(
            "tanh_as_sigmoid: the following layer must be linear or a convolution", got=following
        )
    if isinstance(following, nn.Linear):
        return
    if following.padding_mode == "zeros" and any(following._reversed_padding_repeated_twice):
        fix = "padding=0, or another padding_mode"
        raise ArgumentError(
            "tanh_as_sigmoid: the following layer pads with zeros", got=following, fix=fix
        )


def _open(gate: Gate, response: Tensor, dim: int) -> Tensor:
    u = to_compute_dtype(response)
    if gate == "sigmoid":
        return sigmoid(u)
    return torch.tanh(u) if gate == "tanh" else _softmax(replace_infinities(u), dim)


def _softmax(u: Tensor, dim: int) -> Tensor:
    """Return the softmax. Torch's own would lose channels_last."""
    shares = torch.exp(u - u.amax(dim, keepdim=True).detach())
    return shares / shares.sum(dim, keepdim=True)


def _weights(layer: Any, x: Tensor) -> tuple[Tensor, Tensor | None]:
    name = type(layer).__name__
    bias = None if layer.bias is None else cast_like_input(name, "bias", layer.bias, x)
    return cast_like_input(name, "weight", layer.weight, x), bias


def _check_sizes(layer: str, **sizes: int) -> None:
    for name, size in sizes.items():
        check_count(layer, name, size, least=1)


def _check_maps(name: str, layer: Any, x: Tensor, axes: int) -> None:
    letters = ", ".join("DHW"[-axes:]) if axes > 1 else "L"
    if x.dim() not in (axes + 1, axes + 2) or x.shape[-1 - axes] != layer.in_channels:
        _refuse_shape(
            name, x, f"(N, {layer.in_channels}, {letters}) or ({layer.in_channels}, {letters})"
        )
    pads = layer._reversed_padding_repeated_twice
    for axis in range(axes):
        padded = x.shape[-1 - axis] + pads[2 * axis] + pads[2 * axis + 1]
        if padded < layer.dilation[-1 - axis] * (layer.kernel_size[-1 - axis] - 1) + 1:
            _refuse_shape(name, x, "maps at least as large as the kernel")


def _refuse_shape(name: str, x: Tensor, allowed: str) -> None:
    raise ArgumentError(
        f"{name}: the input has a wrong shape", got=f"shape {tuple(x.shape)}", allowed=allowed
    )
