"""Max-affine spline operators and soft layers."""

from gatewise_papers.maso.layers.apodized_conv import ApodizedConv1d as ApodizedConv1d
from gatewise_papers.maso.layers.apodized_conv import ApodizedConv2d as ApodizedConv2d
from gatewise_papers.maso.layers.apodized_conv import partition_deviation as partition_deviation
from gatewise_papers.maso.layers.factorial import joint_log_posterior as joint_log_posterior
from gatewise_papers.maso.layers.factorial import joint_map as joint_map
from gatewise_papers.maso.layers.factorial import largest_overlap as largest_overlap
from gatewise_papers.maso.layers.factorial import per_unit_map as per_unit_map
from gatewise_papers.maso.layers.maso_layer import MASO as MASO
from gatewise_papers.maso.layers.soft_layer import SoftConv1d as SoftConv1d
from gatewise_papers.maso.layers.soft_layer import SoftConv2d as SoftConv2d
from gatewise_papers.maso.layers.soft_layer import SoftLinear as SoftLinear
from gatewise_papers.maso.layers.soft_layer import tanh_as_sigmoid as tanh_as_sigmoid
