"""Phase selective layers: the sign of each input chooses the weight that multiplies it."""

from gatewise.layers.phase.phase_layer import PhaseLayer as PhaseLayer
from gatewise.layers.phase.phase_layer import read as read
from gatewise.layers.phase.ps_conv import PSConv1d as PSConv1d
from gatewise.layers.phase.ps_conv import PSConv2d as PSConv2d
from gatewise.layers.phase.ps_conv import PSLinear as PSLinear
from gatewise.layers.phase.sign_magnitude import respond_to_signs as respond_to_signs
from gatewise.layers.phase.sign_magnitude import sign_and_magnitude as sign_and_magnitude
