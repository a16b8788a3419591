"""Layers whose gates come from other networks, and their paths."""

from gatewise_papers.deep_gated.layers.gated_linear import GatedConv1d as GatedConv1d
from gatewise_papers.deep_gated.layers.gated_linear import GatedConv2d as GatedConv2d
from gatewise_papers.deep_gated.layers.gated_linear import GatedLinear as GatedLinear
from gatewise_papers.deep_gated.layers.outside_gated import OutsideGatedConv1d as OutsideGatedConv1d
from gatewise_papers.deep_gated.layers.outside_gated import OutsideGatedConv2d as OutsideGatedConv2d
from gatewise_papers.deep_gated.layers.outside_gated import OutsideGatedLinear as OutsideGatedLinear
from gatewise_papers.deep_gated.layers.random_gate import RandomGate as RandomGate
from gatewise_papers.deep_gated.layers.steps import Average as Average
from gatewise_papers.deep_gated.layers.steps import Convolve as Convolve
from gatewise_papers.deep_gated.layers.steps import Dense as Dense
from gatewise_papers.deep_gated.layers.steps import Flatten as Flatten
from gatewise_papers.deep_gated.layers.steps import Gate as Gate
from gatewise_papers.deep_gated.layers.steps import GlobalAverage as GlobalAverage
from gatewise_papers.deep_gated.layers.steps import Linear as Linear
from gatewise_papers.deep_gated.layers.steps import Step as Step
from gatewise_papers.deep_gated.layers.steps import convolve as convolve
from gatewise_papers.deep_gated.layers.steps import path_steps as path_steps
from gatewise_papers.deep_gated.layers.steps import read_steps as read_steps
from gatewise_papers.deep_gated.layers.steps import step_of_layer as step_of_layer
from gatewise_papers.deep_gated.layers.width_matching import matched_width as matched_width
