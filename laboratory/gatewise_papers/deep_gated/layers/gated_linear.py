"""The GLU family: a linear layer or a convolution that is gated by a second one."""

from typing import Any

from torch import Tensor

from gatewise.layers import gate_response
from gatewise.layers.gated import freeze_overflowing_gate, widen
from gatewise.layers.response import ConvolutionResponse, LinearResponse, Response
from gatewise.units import Device, DType
from gatewise_papers.deep_gated.layers.gate_choice import inside_gate


class InsideGated(Response):
    """Two responses to one input, of which one gates the other."""

    weight: Tensor  # W, (out, in / groups, *kernel)
    weight_gate: Tensor  # V, of the same shape
    bias: Tensor | None  # b, (out,)
    bias_gate: Tensor | None  # c, (out,)

    def build(
        self,
        *,
        gate: str = "sigmoid",
        bias: bool = True,
        device: Device = None,
        dtype: DType = None,
        **gate_options: Any,
    ) -> None:
        """Register the weights of both layers and the gate, and draw the weights."""
        for suffix in ("", "_gate"):
            self.add_weight(f"weight{suffix}", self.weight_shape, device, dtype)
            self.add_bias(bias, device, dtype, name=f"bias{suffix}")
        self.gate = inside_gate(
            self.layer,
            gate,
            self.outputs,
            self.spatial,
            **gate_options,
            device=device,
            dtype=dtype,
        )
        # No gradient passes a hard gate, so its weights are frozen.
        if not getattr(self.gate, "learns", True):
            self.weight_gate.requires_grad_(False)
            if self.bias_gate is not None:
                self.bias_gate.requires_grad_(False)
        self._reset_weights()

    def _reset_weights(self) -> None:
        for name in ("weight", "bias", "weight_gate", "bias_gate"):
            self.reset_uniform(name)

    def reset_parameters(self) -> None:
        """Draw the weights of both layers, and set the gate's parameters to their start values."""
        self._reset_weights()
        reset = getattr(self.gate, "reset_parameters", None)
        if callable(reset):
            reset()

    def forward(self, x: Tensor) -> Tensor:
        ready, weight, weight_gate = self.prepare(x, self.weight, self.weight_gate)
        response = widen(self.plain_response(ready, weight, self.bias))
        score = widen(self.plain_response(ready, weight_gate, self.bias_gate))
        gate = freeze_overflowing_gate(response, score, self.gate(score))
        return gate_response(response, gate, x.dtype)

    def extra_repr(self) -> str:
        return super().extra_repr() + (", bias=False" if self.bias is None else "")


class GatedLinear(InsideGated, LinearResponse):
    r"""Two linear responses, of which one gates the other.

    .. math:: y = (W x + b) \odot g(V x + c)

    ================  ======================  ==========================================
    name              ``gate``                :math:`g(v)`
    ================  ======================  ==========================================
    GLU               ``"sigmoid"``           :math:`\sigma(v)`
    bilinear          ``"identity"``          :math:`v`
    ReGLU             ``"relu"``              :math:`\max(v, 0)`
    GEGLU             ``"gelu"``              :math:`v\,\Phi(v)`
    SwiGLU            ``"silu"``              :math:`v\,\sigma(v)`
    GaLU              ``"hard"``              :math:`\mathbb{1}[v > 0]`, ``V`` and ``c`` frozen
    soft-GaLU         ``"soft"``              :math:`(1 + \epsilon)\,\sigma(\beta v)`
    ================  ======================  ==========================================

    ``"straight_through"`` is the hard gate that learns. Any other unit of the catalogue can gate if
    it keeps the width and depends only on its own element. Parameters: ``weight`` and ``bias`` are
    :math:`W, b`; ``weight_gate`` and ``bias_gate`` are :math:`V, c`. This is
    :class:`OutsideGatedLinear` with the gate's layer built in. It has twice the weights of a plain
    layer: :func:`matched_width` returns the width at which a network has no more parameters than a
    plain one. An output that overflows passes no gradient.

    Args:
        in_features: the number of input features.
        out_features: the number of output features.
        gate: a name from the table, or the name of a unit.
        bias: whether both responses have a trainable bias.
        device: the device of the parameters.
        dtype: the dtype of the parameters.
        **gate_options: the options of the gate, such as ``beta`` for ``"swish"``.

    Shape: ``(*, in_features) -> (*, out_features)``.

    Dauphin, Fan, Auli and Grangier, 2017, "Language Modeling with Gated Convolutional Networks",
    arXiv:1612.08083; Shazeer, 2020, "GLU Variants Improve Transformer", arXiv:2002.05202.
    """


class GatedConv1d(InsideGated, ConvolutionResponse):
    """:class:`GatedLinear` as a convolution over sequences, the first form of GLU.

    Args:
        in_channels: the number of input channels.
        out_channels: the number of output channels.
        kernel_size: the size of the kernel, one integer or one per dimension.
        stride: the step from patch to patch, one integer or one per dimension.
        padding: the padding on both sides, one integer or one per dimension, or ``"same"`` or
            ``"valid"``.
        dilation: the distance between elements of the kernel, one integer or one per dimension.
        groups: the number of groups; outputs of a group see only the inputs of that group.
        gate: a name from the table of :class:`GatedLinear`, or the name of a unit.
        bias: whether both responses have a trainable bias.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        device: the device of the parameters.
        dtype: the dtype of the parameters.
        **gate_options: the options of the gate.

    Shape: ``(N, C, L) -> (N, C', L')``.
    """

    spatial = 1


class GatedConv2d(InsideGated, ConvolutionResponse):
    """:class:`GatedLinear` as a convolution over maps.

    Args:
        in_channels: the number of input channels.
        out_channels: the number of output channels.
        kernel_size: the size of the kernel, one integer or one per dimension.
        stride: the step from patch to patch, one integer or one per dimension.
        padding: the padding on both sides, one integer or one per dimension, or ``"same"`` or
            ``"valid"``.
        dilation: the distance between elements of the kernel, one integer or one per dimension.
        groups: the number of groups; outputs of a group see only the inputs of that group.
        gate: a name from the table of :class:`GatedLinear`, or the name of a unit.
        bias: whether both responses have a trainable bias.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        device: the device of the parameters.
        dtype: the dtype of the parameters.
        **gate_options: the options of the gate.

    Shape: ``(N, C, H, W) -> (N, C', H', W')``.
    """

    spatial = 2
