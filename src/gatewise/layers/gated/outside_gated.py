r"""Linear and convolution layers whose gate comes from outside.

The layers of deep gated networks.
"""

from torch import nn

from gatewise.layers.gated.outside import OutsideGated
from gatewise.layers.response import ConvolutionResponse, LinearResponse, Size
from gatewise.units import Device, DType


class OutsideGatedLinear(OutsideGated, LinearResponse):
    r"""A linear layer whose gate comes from outside: one layer of a deep gated network.

    .. math:: y = q \odot G, \qquad q = W x + b

    ``layer(x, source)`` hands ``source`` to the gate, which makes ``G`` of it:

    ===========================  ==========================================
    ======================================= ``gate``                     ``source``
    network of the paper ===========================  ==========================================
    ======================================= ``"constant"``               nothing
    deep linear network ``RandomGate(n, units)``     indices ``(N,)`` of training examples
    DGN-FRG; cannot be tested on new data ``"hard"``                   another layer's response,
    frozen            GaLU ``"straight_through"``       another layer's response, which learns
    GaLU with gates that are trained ``"soft"``                   another layer's response, which
    learns      soft-GaLU ``"given"``                  the gate values
    gates of a trained network, copied ===========================
    ==========================================  =======================================

    With the layer's own :meth:`response` as ``source``, ``"hard"`` is ReLU and ``"soft"`` is
    soft-ReLU. Gates other than the default ones are modules: ``gate=SoftGate(beta=8.0)``. The
    paper's layers have no bias, and that is the default. It says that gates lie in [0, 1]; soft
    ones reach ``1 + eps``.

    Shape: ``(*, in_features) -> (*, out_features)``; gates as the output, with 1 in dimensions that
        share a gate.

    Lakshminarayanan and Singh, 2020, "Deep Gated Networks", arXiv:2002.03996; GaLU: Fiat, Malach
    and Shalev-Shwartz, 2019, "Decoupling Gating from Linearity", arXiv:1906.05032.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        gate: str | nn.Module = "soft",
        bias: bool = False,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        super().__init__(in_features, out_features)
        self.make_parts(gate, bias, device, dtype)


class _OutsideGatedConvolution(OutsideGated, ConvolutionResponse):
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
        gate: str | nn.Module = "soft",
        bias: bool = False,
        padding_mode: str = "zeros",
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, padding_mode
        )
        self.make_parts(gate, bias, device, dtype)


class OutsideGatedConv1d(_OutsideGatedConvolution):
    """:class:`OutsideGatedLinear` as a convolution over sequences.

    Shape: ``(N, C, L) -> (N, C', L')``.
    """

    spatial = 1


class OutsideGatedConv2d(_OutsideGatedConvolution):
    """:class:`OutsideGatedLinear` as a convolution over maps.

    Shape: ``(N, C, H, W) -> (N, C', H', W')``.
    """

    spatial = 2
