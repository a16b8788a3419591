"""Layers with weights around units: the constructions of the papers."""

from gatewise.layers.attention import AttentionGate as AttentionGate
from gatewise.layers.attention import GatedMultiheadAttention as GatedMultiheadAttention
from gatewise.layers.attention import OpenGate as OpenGate
from gatewise.layers.gated import ConstantGate as ConstantGate
from gatewise.layers.gated import GatedConv1d as GatedConv1d
from gatewise.layers.gated import GatedConv2d as GatedConv2d
from gatewise.layers.gated import GatedLinear as GatedLinear
from gatewise.layers.gated import GivenGate as GivenGate
from gatewise.layers.gated import HardGate as HardGate
from gatewise.layers.gated import OutsideGatedConv1d as OutsideGatedConv1d
from gatewise.layers.gated import OutsideGatedConv2d as OutsideGatedConv2d
from gatewise.layers.gated import OutsideGatedLinear as OutsideGatedLinear
from gatewise.layers.gated import RandomGate as RandomGate
from gatewise.layers.gated import SoftGate as SoftGate
from gatewise.layers.gated import StraightThroughGate as StraightThroughGate
from gatewise.layers.gated import hard_gate as hard_gate
from gatewise.layers.gated import matched_width as matched_width
from gatewise.layers.gated import soft_gate as soft_gate
from gatewise.layers.gated import straight_through_gate as straight_through_gate
from gatewise.layers.iieu import ConvIIEU as ConvIIEU
from gatewise.layers.iieu import Coupler as Coupler
from gatewise.layers.iieu import LinearIIEU as LinearIIEU
from gatewise.layers.maso import MASO as MASO
from gatewise.layers.maso import SoftConv1d as SoftConv1d
from gatewise.layers.maso import SoftConv2d as SoftConv2d
from gatewise.layers.maso import SoftLinear as SoftLinear
from gatewise.layers.maso import joint_log_posterior as joint_log_posterior
from gatewise.layers.maso import joint_map as joint_map
from gatewise.layers.maso import largest_overlap as largest_overlap
from gatewise.layers.maso import per_unit_map as per_unit_map
from gatewise.layers.maso import tanh_as_sigmoid as tanh_as_sigmoid
from gatewise.layers.orthonormal import orthogonal as orthogonal
from gatewise.layers.orthonormal import orthogonality_penalty as orthogonality_penalty
from gatewise.layers.orthonormal import slope_overlap as slope_overlap
from gatewise.layers.phase import LowRankPSConv2d as LowRankPSConv2d
from gatewise.layers.phase import LowRankPSLinear as LowRankPSLinear
from gatewise.layers.phase import PSConv1d as PSConv1d
from gatewise.layers.phase import PSConv2d as PSConv2d
from gatewise.layers.phase import PSLinear as PSLinear
from gatewise.layers.phase import StaticPSConv1d as StaticPSConv1d
from gatewise.layers.phase import StaticPSConv2d as StaticPSConv2d
from gatewise.layers.phase import StaticPSLinear as StaticPSLinear
from gatewise.layers.phase import anneal_splits as anneal_splits
from gatewise.layers.phase import equal_parameter_rank as equal_parameter_rank
from gatewise.layers.phase import learned_splits as learned_splits
from gatewise.layers.phase import respond_to_signs as respond_to_signs
from gatewise.layers.phase import sign_and_magnitude as sign_and_magnitude
from gatewise.layers.phase import split_temperature as split_temperature
from gatewise.layers.pooling import ApodizedConv1d as ApodizedConv1d
from gatewise.layers.pooling import ApodizedConv2d as ApodizedConv2d
from gatewise.layers.pooling import BetaChannelPool as BetaChannelPool
from gatewise.layers.pooling import BetaPool1d as BetaPool1d
from gatewise.layers.pooling import BetaPool2d as BetaPool2d
from gatewise.layers.pooling import partition_deviation as partition_deviation

__all__ = [
    "MASO",
    "ApodizedConv1d",
    "ApodizedConv2d",
    "AttentionGate",
    "BetaChannelPool",
    "BetaPool1d",
    "BetaPool2d",
    "ConstantGate",
    "ConvIIEU",
    "Coupler",
    "GatedConv1d",
    "GatedConv2d",
    "GatedLinear",
    "GatedMultiheadAttention",
    "GivenGate",
    "HardGate",
    "LinearIIEU",
    "LowRankPSConv2d",
    "LowRankPSLinear",
    "OpenGate",
    "OutsideGatedConv1d",
    "OutsideGatedConv2d",
    "OutsideGatedLinear",
    "PSConv1d",
    "PSConv2d",
    "PSLinear",
    "RandomGate",
    "SoftConv1d",
    "SoftConv2d",
    "SoftGate",
    "SoftLinear",
    "StaticPSConv1d",
    "StaticPSConv2d",
    "StaticPSLinear",
    "StraightThroughGate",
    "anneal_splits",
    "equal_parameter_rank",
    "hard_gate",
    "joint_log_posterior",
    "joint_map",
    "largest_overlap",
    "matched_width",
    "orthogonal",
    "orthogonality_penalty",
    "partition_deviation",
    "per_unit_map",
    "respond_to_signs",
    "sign_and_magnitude",
    "slope_overlap",
    "soft_gate",
    "split_temperature",
    "straight_through_gate",
    "tanh_as_sigmoid",
]

from gatewise.layers.gated import Average as Average
from gatewise.layers.gated import Convolve as Convolve
from gatewise.layers.gated import Dense as Dense
from gatewise.layers.gated import Flatten as Flatten
from gatewise.layers.gated import Gate as Gate
from gatewise.layers.gated import GlobalAverage as GlobalAverage
from gatewise.layers.gated import Linear as Linear
from gatewise.layers.gated import Step as Step
from gatewise.layers.gated import convolve as convolve
from gatewise.layers.gated import gate_response as gate_response
from gatewise.layers.gated import path_steps as path_steps
from gatewise.layers.gated import read_steps as read_steps
from gatewise.layers.gated import step_of_layer as step_of_layer
from gatewise.layers.iieu import IIEULayer as IIEULayer
from gatewise.layers.iieu import scale_and_offset as scale_and_offset
from gatewise.layers.orthonormal import OrthonormalFilters as OrthonormalFilters
from gatewise.layers.orthonormal import as_rows as as_rows
from gatewise.layers.orthonormal import filter_groups as filter_groups
from gatewise.layers.phase import StaticPhaseSelective as StaticPhaseSelective
from gatewise.layers.pooling import BetaPoolNd as BetaPoolNd
