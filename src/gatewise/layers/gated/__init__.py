"""Gated linear and convolution layers, gates, and the path view of gated networks."""

from gatewise.layers.gated.gate_modules import ConstantGate as ConstantGate
from gatewise.layers.gated.gate_modules import GivenGate as GivenGate
from gatewise.layers.gated.gate_modules import HardGate as HardGate
from gatewise.layers.gated.gate_modules import SoftGate as SoftGate
from gatewise.layers.gated.gate_modules import StraightThroughGate as StraightThroughGate
from gatewise.layers.gated.gate_modules import hard_gate as hard_gate
from gatewise.layers.gated.gate_modules import soft_gate as soft_gate
from gatewise.layers.gated.gate_modules import straight_through_gate as straight_through_gate
from gatewise.layers.gated.product import freeze_overflowing_gate as freeze_overflowing_gate
from gatewise.layers.gated.product import gate_response as gate_response
from gatewise.layers.gated.product import widen as widen
