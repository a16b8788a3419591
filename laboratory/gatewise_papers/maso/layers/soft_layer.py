"""Soft layers: linear and convolution layers that return the gate, a sigmoid, tanh or softmax."""

import copy
from typing import ClassVar, Literal, TypeVar

import torch
from torch import Tensor, nn

from gatewise.checks import check_choice
from gatewise.errors import ArgumentError
from gatewise.layers.response import ConvolutionResponse, LinearResponse, Response
from gatewise.units import Device, DType, replace_infinities, to_compute_dtype

Gate = Literal["sigmoid", "tanh", "softmax"]
GATES = ("sigmoid", "tanh", "softmax")
Soft = TypeVar("Soft", bound="SoftLinear | SoftConv1d | SoftConv2d")
Plain = TypeVar("Plain", bound=nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d)


class SoftResponse(Response):
    """A response that is returned as a gate."""

    weight: Tensor  # W, (out, in / groups, *kernel)
    bias: Tensor | None  # b, (out,)
    gate: Gate
    has_filters: ClassVar[bool] = True

    def build(
        self,
        bias: bool = True,
        *,
        gate: Gate = "sigmoid",
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        """Register and draw the weights."""
        check_choice(self.layer, "gate", gate, GATES)
        self.gate = gate
        self.add_weight("weight", self.weight_shape, device, dtype)
        self.add_bias(bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias as torch's layers do."""
        self.reset_uniform("weight")
        self.reset_uniform("bias")

    def forward(self, x: Tensor) -> Tensor:
        ready, weight = self.prepare(x, self.weight)
        # The half types are computed in float32.
        ready = to_compute_dtype(ready)
        response = self.plain_response(ready, to_compute_dtype(weight), self.bias)
        u = to_compute_dtype(response)
        if self.gate == "sigmoid":
            return torch.sigmoid(u).to(x.dtype)
        if self.gate == "tanh":
            return torch.tanh(u).to(x.dtype)
        return _softmax(replace_infinities(u), self.channel_dim).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, bias={self.bias is not None}, gate={self.gate!r}"


class SoftLinear(SoftResponse, LinearResponse):
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


class SoftConv1d(SoftResponse, ConvolutionResponse):
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

    spatial: ClassVar[int] = 1


class SoftConv2d(SoftResponse, ConvolutionResponse):
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

    spatial: ClassVar[int] = 2


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
            "tanh_as_sigmoid: the following layer pads with zeros",
            got=following,
            fix=fix,
        )


def _softmax(u: Tensor, dim: int) -> Tensor:
    """Return the softmax. Torch's own would lose channels_last."""
    shares = torch.exp(u - u.amax(dim, keepdim=True).detach())
    return shares / shares.sum(dim, keepdim=True)
