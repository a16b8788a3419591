"""Max-affine spline operators and soft layers."""

from gatewise.layers.maso.factorial import joint_log_posterior as joint_log_posterior
from gatewise.layers.maso.factorial import joint_map as joint_map
from gatewise.layers.maso.factorial import largest_overlap as largest_overlap
from gatewise.layers.maso.factorial import per_unit_map as per_unit_map
from gatewise.layers.maso.maso_layer import MASO as MASO
from gatewise.layers.maso.soft_layer import SoftConv1d as SoftConv1d
from gatewise.layers.maso.soft_layer import SoftConv2d as SoftConv2d
from gatewise.layers.maso.soft_layer import SoftLinear as SoftLinear
from gatewise.layers.maso.soft_layer import tanh_as_sigmoid as tanh_as_sigmoid
