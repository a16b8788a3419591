"""IIEU layers: a layer, a norm and IIEU-B in one, and the coupler of IIEU-DC."""

from gatewise.layers.iieu.batch_norm import scale_and_offset as scale_and_offset
from gatewise.layers.iieu.coupler import Coupler as Coupler
from gatewise.layers.iieu.iieu_layer import ConvIIEU as ConvIIEU
from gatewise.layers.iieu.iieu_layer import IIEULayer as IIEULayer
from gatewise.layers.iieu.iieu_layer import LinearIIEU as LinearIIEU
