"""Lin et al., 2021, "Phase Selective Convolution"."""

from gatewise_papers.psc.layers import LowRankPSConv2d as LowRankPSConv2d
from gatewise_papers.psc.layers import LowRankPSLinear as LowRankPSLinear
from gatewise_papers.psc.layers import StaticPhaseSelective as StaticPhaseSelective
from gatewise_papers.psc.layers import StaticPSConv1d as StaticPSConv1d
from gatewise_papers.psc.layers import StaticPSConv2d as StaticPSConv2d
from gatewise_papers.psc.layers import StaticPSLinear as StaticPSLinear
from gatewise_papers.psc.layers import anneal_splits as anneal_splits
from gatewise_papers.psc.layers import equal_parameter_rank as equal_parameter_rank
from gatewise_papers.psc.layers import gates as gates
from gatewise_papers.psc.layers import gumbel_like as gumbel_like
from gatewise_papers.psc.layers import learned_splits as learned_splits
from gatewise_papers.psc.layers import split_temperature as split_temperature
