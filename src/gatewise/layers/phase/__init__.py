"""Phase selective layers: the sign of each input chooses the weight that multiplies it."""

from gatewise.layers.phase.low_rank_ps_conv import LowRankPSConv2d as LowRankPSConv2d
from gatewise.layers.phase.low_rank_ps_conv import LowRankPSLinear as LowRankPSLinear
from gatewise.layers.phase.low_rank_ps_conv import equal_parameter_rank as equal_parameter_rank
from gatewise.layers.phase.phase_layer import PhaseLayer as PhaseLayer
from gatewise.layers.phase.ps_conv import PSConv1d as PSConv1d
from gatewise.layers.phase.ps_conv import PSConv2d as PSConv2d
from gatewise.layers.phase.ps_conv import PSLinear as PSLinear
from gatewise.layers.phase.sign_magnitude import respond_to_signs as respond_to_signs
from gatewise.layers.phase.sign_magnitude import sign_and_magnitude as sign_and_magnitude
from gatewise.layers.phase.split import gates as gates
from gatewise.layers.phase.split import gumbel_like as gumbel_like
from gatewise.layers.phase.split_annealing import anneal_splits as anneal_splits
from gatewise.layers.phase.split_annealing import learned_splits as learned_splits
from gatewise.layers.phase.static_ps_conv import StaticPhaseSelective as StaticPhaseSelective
from gatewise.layers.phase.static_ps_conv import StaticPSConv1d as StaticPSConv1d
from gatewise.layers.phase.static_ps_conv import StaticPSConv2d as StaticPSConv2d
from gatewise.layers.phase.static_ps_conv import StaticPSLinear as StaticPSLinear
from gatewise.layers.phase.static_ps_conv import split_temperature as split_temperature
