"""Units with weights around them: the papers' own constructions."""

from gatewise.layers.anneal_splits import anneal_splits as anneal_splits
from gatewise.layers.anneal_splits import split_temperature as split_temperature
from gatewise.layers.apodized_conv import ApodizedConv1d as ApodizedConv1d
from gatewise.layers.apodized_conv import ApodizedConv2d as ApodizedConv2d
from gatewise.layers.apodized_conv import partition_deviation as partition_deviation
from gatewise.layers.beta_channel_pool import BetaChannelPool as BetaChannelPool
from gatewise.layers.beta_pool import BetaPool1d as BetaPool1d
from gatewise.layers.beta_pool import BetaPool2d as BetaPool2d
from gatewise.layers.constant_gate import ConstantGate as ConstantGate
from gatewise.layers.constant_gate import GivenGate as GivenGate
from gatewise.layers.coupler import Coupler as Coupler
from gatewise.layers.factorial import joint_log_posterior as joint_log_posterior
from gatewise.layers.factorial import joint_map as joint_map
from gatewise.layers.factorial import largest_overlap as largest_overlap
from gatewise.layers.factorial import per_unit_map as per_unit_map
from gatewise.layers.gated_linear import GatedConv1d as GatedConv1d
from gatewise.layers.gated_linear import GatedConv2d as GatedConv2d
from gatewise.layers.gated_linear import GatedLinear as GatedLinear
from gatewise.layers.iieu import ConvIIEU as ConvIIEU
from gatewise.layers.iieu import LinearIIEU as LinearIIEU
from gatewise.layers.low_rank_ps_conv import LowRankPSConv2d as LowRankPSConv2d
from gatewise.layers.low_rank_ps_conv import LowRankPSLinear as LowRankPSLinear
from gatewise.layers.low_rank_ps_conv import equal_parameter_rank as equal_parameter_rank
from gatewise.layers.maso import MASO as MASO
from gatewise.layers.matched_width import matched_width as matched_width
from gatewise.layers.orthogonal import orthogonal as orthogonal
from gatewise.layers.orthogonality_penalty import orthogonality_penalty as orthogonality_penalty
from gatewise.layers.orthogonality_penalty import slope_overlap as slope_overlap
from gatewise.layers.outside_gated import OutsideGatedConv1d as OutsideGatedConv1d
from gatewise.layers.outside_gated import OutsideGatedConv2d as OutsideGatedConv2d
from gatewise.layers.outside_gated import OutsideGatedLinear as OutsideGatedLinear
from gatewise.layers.ps_conv import PSConv1d as PSConv1d
from gatewise.layers.ps_conv import PSConv2d as PSConv2d
from gatewise.layers.ps_conv import PSLinear as PSLinear
from gatewise.layers.random_gate import RandomGate as RandomGate
from gatewise.layers.response_gate import HardGate as HardGate
from gatewise.layers.response_gate import SoftGate as SoftGate
from gatewise.layers.response_gate import StraightThroughGate as StraightThroughGate
from gatewise.layers.response_gate import hard_gate as hard_gate
from gatewise.layers.response_gate import soft_gate as soft_gate
from gatewise.layers.response_gate import straight_through_gate as straight_through_gate
from gatewise.layers.sign_magnitude import respond_to_signs as respond_to_signs
from gatewise.layers.sign_magnitude import sign_and_magnitude as sign_and_magnitude
from gatewise.layers.soft_layer import SoftConv1d as SoftConv1d
from gatewise.layers.soft_layer import SoftConv2d as SoftConv2d
from gatewise.layers.soft_layer import SoftLinear as SoftLinear
from gatewise.layers.soft_layer import tanh_as_sigmoid as tanh_as_sigmoid
from gatewise.layers.static_ps_conv import StaticPSConv1d as StaticPSConv1d
from gatewise.layers.static_ps_conv import StaticPSConv2d as StaticPSConv2d
from gatewise.layers.static_ps_conv import StaticPSLinear as StaticPSLinear

__all__ = [
    "MASO",
    "ApodizedConv1d",
    "ApodizedConv2d",
    "BetaChannelPool",
    "BetaPool1d",
    "BetaPool2d",
    "ConstantGate",
    "ConvIIEU",
    "Coupler",
    "GatedConv1d",
    "GatedConv2d",
    "GatedLinear",
    "GivenGate",
    "HardGate",
    "LinearIIEU",
    "LowRankPSConv2d",
    "LowRankPSLinear",
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
