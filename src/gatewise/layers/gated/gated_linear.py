"""The GLU family: a linear layer or a convolution that is gated by a second one."""

from typing import Any

from torch import Tensor

from gatewise.layers.gated.gate_choice import inside_gate
from gatewise.layers.gated.product import freeze_overflowing_gate, gate_response, widen
from gatewise.layers.response import ConvolutionResponse, LinearResponse, Response
from gatewise.layers.windows import Sizes
from gatewise.units import Device, DType


class InsideGated(Response):
    """Two responses to one input, of which one gates the other."""

    weight: Tensor
    weight_gate: Tensor
    bias: Tensor | None
    bias_gate: Tensor | None

    def build(
        self, gate: str, bias: bool, device: Device, dtype: DType, options: dict[str, Any]
    ) -> None:
        """Register the weights of both layers and the gate, and draw the weights."""
        for suffix in ("", "_gate"):
            self.add_weight(f"weight{suffix}", self.weight_shape, device, dtype)
            self.add_bias(bias, device, dtype, name=f"bias{suffix}")
        self.gate = inside_gate(
            self.layer, gate, self.outputs, self.spatial, **options, device=device, dtype=dtype
        )
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
    """."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        gate: str = "sigmoid",
        bias: bool = True,
        device: Device = None,
        dtype: DType = None,
        **gate_options: Any,
    ) -> None:
        super().__init__(in_features, out_features)
        self.build(gate, bias, device, dtype, gate_options)


class _GatedConvolution(InsideGated, ConvolutionResponse):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        *,
        gate: str = "sigmoid",
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Device = None,
        dtype: DType = None,
        **gate_options: Any,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, padding_mode
        )
        self.build(gate, bias, device, dtype, gate_options)


class GatedConv1d(_GatedConvolution):
    """."""

    spatial = 1


class GatedConv2d(_GatedConvolution):
    """."""

    spatial = 2
