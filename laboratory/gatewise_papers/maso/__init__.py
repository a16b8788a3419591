"""Balestriero and Baraniuk, 2019, "From Hard to Soft"."""

from gatewise_papers.maso.layers import MASO as MASO
from gatewise_papers.maso.layers import ApodizedConv1d as ApodizedConv1d
from gatewise_papers.maso.layers import ApodizedConv2d as ApodizedConv2d
from gatewise_papers.maso.layers import SoftConv1d as SoftConv1d
from gatewise_papers.maso.layers import SoftConv2d as SoftConv2d
from gatewise_papers.maso.layers import SoftLinear as SoftLinear
from gatewise_papers.maso.layers import joint_log_posterior as joint_log_posterior
from gatewise_papers.maso.layers import joint_map as joint_map
from gatewise_papers.maso.layers import largest_overlap as largest_overlap
from gatewise_papers.maso.layers import partition_deviation as partition_deviation
from gatewise_papers.maso.layers import per_unit_map as per_unit_map
from gatewise_papers.maso.layers import tanh_as_sigmoid as tanh_as_sigmoid
