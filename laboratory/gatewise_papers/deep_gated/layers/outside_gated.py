"""Linear and convolution layers that are gated from outside: the layers of deep gated networks."""

from torch import Tensor, nn

from gatewise.checks import check_number
from gatewise.errors import ArgumentError
from gatewise.layers import gate_response
from gatewise.layers.gated import widen
from gatewise.layers.response import ConvolutionResponse, LinearResponse, Response
from gatewise.units import Device, DType, cast_like_input
from gatewise_papers.deep_gated.layers.gate_choice import SET_BY_SOURCE, outside_gate


class OutsideGated(Response):
    """A response times a gate that something else sets."""

    weight: Tensor  # W, (out, in / groups, *kernel)
    bias: Tensor | None  # b, (out,)

    def build(
        self,
        *,
        gate: str | nn.Module = "soft",
        bias: bool = False,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        """Register the weights and the gate, and draw the weights."""
        self.add_weight("weight", self.weight_shape, device, dtype)
        self.add_bias(bias, device, dtype)
        self.gate = outside_gate(self.layer, gate)
        self._reset_weights()

    def _reset_weights(self) -> None:
        self.reset_uniform("weight")
        self.reset_uniform("bias")

    def reset_parameters(self) -> None:
        """Draw the weights, and the gates if they are stored in this layer."""
        self._reset_weights()
        reset = getattr(self.gate, "reset_parameters", None)
        if callable(reset):
            reset()

    def response(self, x: Tensor) -> Tensor:
        """Return the plain layer's output ``q``, which can gate another layer or this one.

        Args:
            x: the input of the layer.
        """
        return self._wide_response(x).to(x.dtype)

    def _wide_response(self, x: Tensor) -> Tensor:
        ready, weight = self.prepare(x, self.weight)
        return widen(self.plain_response(ready, weight, self.bias))

    def forward(self, x: Tensor, source: Tensor | None = None) -> Tensor:
        response = self._wide_response(x)
        return gate_response(response, self._gate_values(x, response, source), x.dtype)

    def _gate_values(self, x: Tensor, response: Tensor, source: Tensor | None) -> Tensor:
        if source is None and isinstance(self.gate, SET_BY_SOURCE):
            raise ArgumentError(
                f"{self.layer}: this gate needs a source",
                got="no source",
                fix="layer(x, source), where source is another layer's response",
            )
        gate = self.gate(source)
        if not isinstance(gate, Tensor):
            return response.new_full((), check_number(self.layer, "gate", gate))
        gate = cast_like_input(self.layer, "the gate", gate, x)
        pairs = zip(gate.shape, response.shape, strict=False)
        if gate.dim() != response.dim() or not all(size in (1, full) for size, full in pairs):
            raise ArgumentError(
                f"{self.layer}: gate and response have different shapes",
                got=f"gate {tuple(gate.shape)}, response {tuple(response.shape)}",
                allowed="the response's shape, or 1 in dimensions that share a gate",
            )
        return gate

    def extra_repr(self) -> str:
        return super().extra_repr() + (", bias=True" if self.bias is not None else "")


class OutsideGatedLinear(OutsideGated, LinearResponse):
    r"""A linear layer that is gated from outside: one layer of a deep gated network.

    .. math:: y = q \odot G, \qquad q = W x + b

    ``layer(x, source)`` passes ``source`` to the gate, which computes ``G`` from it:

    ========================  ====================================  ================================
    ``gate``                  ``source``                            network of the paper
    ========================  ====================================  ================================
    ``"constant"``            none                                  deep linear network
    ``RandomGate(n, units)``  indices ``(N,)`` of examples          DGN-FRG, only for training data
    ``"hard"``                another layer's response, frozen      GaLU
    ``"straight_through"``    another layer's response, learning    GaLU with trained gates
    ``"soft"``                another layer's response, learning    soft-GaLU
    ``"given"``               the gate values                       gates copied from a network
    ========================  ====================================  ================================

    With the layer's own :meth:`response` as ``source``, ``"hard"`` is ReLU and ``"soft"`` is
    soft-ReLU. The paper's layers have no bias, and that is the default. The paper says that gates
    lie in [0, 1]; soft ones reach ``1 + eps``.

    Args:
        in_features: the number of input features.
        out_features: the number of output features.
        gate: a name from the table, or a module such as ``SoftGate(beta=8.0)``.
        bias: whether every output has a trainable bias.
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``(*, in_features) -> (*, out_features)``. Gates have the shape of the output, or 1 in
    dimensions that share a gate.

    Lakshminarayanan and Singh, 2020, "Deep Gated Networks", arXiv:2002.03996; GaLU: Fiat, Malach
    and Shalev-Shwartz, 2019, "Decoupling Gating from Linearity", arXiv:1906.05032.
    """


class OutsideGatedConv1d(OutsideGated, ConvolutionResponse):
    """:class:`OutsideGatedLinear` as a convolution over sequences.

    Args:
        in_channels: the number of input channels.
        out_channels: the number of output channels.
        kernel_size: the size of the kernel, one integer or one per dimension.
        stride: the step from patch to patch, one integer or one per dimension.
        padding: the padding on both sides, one integer or one per dimension, or ``"same"`` or
            ``"valid"``.
        dilation: the distance between elements of the kernel, one integer or one per dimension.
        groups: the number of groups; outputs of a group see only the inputs of that group.
        gate: a name from the table of :class:`OutsideGatedLinear`, or a module.
        bias: whether every output has a trainable bias.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``(N, C, L) -> (N, C', L')``.
    """

    spatial = 1


class OutsideGatedConv2d(OutsideGated, ConvolutionResponse):
    """:class:`OutsideGatedLinear` as a convolution over maps.

    Args:
        in_channels: the number of input channels.
        out_channels: the number of output channels.
        kernel_size: the size of the kernel, one integer or one per dimension.
        stride: the step from patch to patch, one integer or one per dimension.
        padding: the padding on both sides, one integer or one per dimension, or ``"same"`` or
            ``"valid"``.
        dilation: the distance between elements of the kernel, one integer or one per dimension.
        groups: the number of groups; outputs of a group see only the inputs of that group.
        gate: a name from the table of :class:`OutsideGatedLinear`, or a module.
        bias: whether every output has a trainable bias.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``(N, C, H, W) -> (N, C', H', W')``.
    """

    spatial = 2
