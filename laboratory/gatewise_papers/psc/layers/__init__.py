"""Low-rank and static phase selective layers."""

from gatewise_papers.psc.layers.low_rank_ps_conv import LowRankPSConv2d as LowRankPSConv2d
from gatewise_papers.psc.layers.low_rank_ps_conv import LowRankPSLinear as LowRankPSLinear
from gatewise_papers.psc.layers.low_rank_ps_conv import equal_parameter_rank as equal_parameter_rank
from gatewise_papers.psc.layers.split import gates as gates
from gatewise_papers.psc.layers.split import gumbel_like as gumbel_like
from gatewise_papers.psc.layers.split_annealing import anneal_splits as anneal_splits
from gatewise_papers.psc.layers.split_annealing import learned_splits as learned_splits
from gatewise_papers.psc.layers.static_ps_conv import StaticPhaseSelective as StaticPhaseSelective
from gatewise_papers.psc.layers.static_ps_conv import StaticPSConv1d as StaticPSConv1d
from gatewise_papers.psc.layers.static_ps_conv import StaticPSConv2d as StaticPSConv2d
from gatewise_papers.psc.layers.static_ps_conv import StaticPSLinear as StaticPSLinear
from gatewise_papers.psc.layers.static_ps_conv import split_temperature as split_temperature
