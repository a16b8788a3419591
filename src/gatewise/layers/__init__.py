"""Layers with weights around units: the constructions of the papers."""

from gatewise.layers.attention import AttentionGate as AttentionGate
from gatewise.layers.attention import GatedMultiheadAttention as GatedMultiheadAttention
from gatewise.layers.attention import OpenGate as OpenGate
from gatewise.layers.gated import ConstantGate as ConstantGate
from gatewise.layers.gated import GivenGate as GivenGate
from gatewise.layers.gated import HardGate as HardGate
from gatewise.layers.gated import SoftGate as SoftGate
from gatewise.layers.gated import StraightThroughGate as StraightThroughGate
from gatewise.layers.gated import hard_gate as hard_gate
from gatewise.layers.gated import soft_gate as soft_gate
from gatewise.layers.gated import straight_through_gate as straight_through_gate
from gatewise.layers.iieu import ConvIIEU as ConvIIEU
from gatewise.layers.iieu import Coupler as Coupler
from gatewise.layers.iieu import LinearIIEU as LinearIIEU
from gatewise.layers.orthonormal import orthogonal as orthogonal
from gatewise.layers.orthonormal import orthogonality_penalty as orthogonality_penalty
from gatewise.layers.orthonormal import slope_overlap as slope_overlap
from gatewise.layers.phase import PSConv1d as PSConv1d
from gatewise.layers.phase import PSConv2d as PSConv2d
from gatewise.layers.phase import PSLinear as PSLinear
from gatewise.layers.phase import respond_to_signs as respond_to_signs
from gatewise.layers.phase import sign_and_magnitude as sign_and_magnitude
from gatewise.layers.pooling import BetaChannelPool as BetaChannelPool
from gatewise.layers.pooling import BetaPool1d as BetaPool1d
from gatewise.layers.pooling import BetaPool2d as BetaPool2d

__all__ = [
    "AttentionGate",
    "BetaChannelPool",
    "BetaPool1d",
    "BetaPool2d",
    "ConstantGate",
    "ConvIIEU",
    "Coupler",
    "GatedMultiheadAttention",
    "GivenGate",
    "HardGate",
    "LinearIIEU",
    "OpenGate",
    "PSConv1d",
    "PSConv2d",
    "PSLinear",
    "SoftGate",
    "StraightThroughGate",
    "hard_gate",
    "orthogonal",
    "orthogonality_penalty",
    "respond_to_signs",
    "sign_and_magnitude",
    "slope_overlap",
    "soft_gate",
    "straight_through_gate",
]

from gatewise.layers.gated import gate_response as gate_response
from gatewise.layers.iieu import IIEULayer as IIEULayer
from gatewise.layers.iieu import scale_and_offset as scale_and_offset
from gatewise.layers.orthonormal import OrthonormalFilters as OrthonormalFilters
from gatewise.layers.orthonormal import as_rows as as_rows
from gatewise.layers.orthonormal import filter_groups as filter_groups
from gatewise.layers.phase import PhaseLayer as PhaseLayer
from gatewise.layers.pooling import BetaPoolNd as BetaPoolNd
