"""The GLU family: a linear layer, or a convolution, that a second one gates."""

from typing import Any

from gatewise.layers.gated.inside import InsideGated
from gatewise.layers.response import ConvolutionResponse, LinearResponse, Size
from gatewise.units import Device, DType


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

    and any other unit of the catalogue that keeps the width and looks at its own element alone;
    ``"straight_through"`` is the hard gate that learns. Parameters: ``weight``, ``bias`` are
    :math:`W, b`; ``weight_gate``, ``bias_gate`` are :math:`V, c`. This is
    :class:`OutsideGatedLinear` with the gate's layer built in. It has twice the weights of a plain
    layer: :func:`matched_width` gives the width at which a network stays within its budget.

    Shape: ``(*, in_features) -> (*, out_features)``. An output that overflows passes no gradient.

    Args: gate: a name from the table, or of a unit. **gate_options: the gate's own, such as
        ``beta`` for ``"swish"``.

    Dauphin, Fan, Auli and Grangier, 2017, "Language Modeling with Gated Convolutional Networks",
    arXiv:1612.08083; Shazeer, 2020, "GLU Variants Improve Transformer", arXiv:2002.05202.
    """

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
        self.make_parts(gate, bias, device, dtype, gate_options)


class _GatedConvolution(InsideGated, ConvolutionResponse):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
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
        self.make_parts(gate, bias, device, dtype, gate_options)


class GatedConv1d(_GatedConvolution):
    """:class:`GatedLinear` as a convolution over sequences, GLU's first form.

    Shape: ``(N, C, L) -> (N, C', L')``.
    """

    spatial = 1


class GatedConv2d(_GatedConvolution):
    """:class:`GatedLinear` as a convolution over maps.

    Shape: ``(N, C, H, W) -> (N, C', H', W')``.
    """

    spatial = 2
