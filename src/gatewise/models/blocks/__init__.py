"""Building blocks of the networks: layers with a norm and a unit, chains and residual blocks."""

from gatewise.models.blocks.block import Block as Block
from gatewise.models.blocks.block import conv_block as conv_block
from gatewise.models.blocks.block import unit_places as unit_places
from gatewise.models.blocks.chain import Chain as Chain
from gatewise.models.blocks.options import check_scale as check_scale
from gatewise.models.blocks.options import check_sizes as check_sizes
from gatewise.models.blocks.options import check_widths as check_widths
from gatewise.models.blocks.slot import RELU as RELU
from gatewise.models.blocks.slot import Slot as Slot
from gatewise.models.blocks.slot import UnitChoice as UnitChoice
from gatewise.models.blocks.slot import phase_layers as phase_layers
from gatewise.models.blocks.slot import slot_of as slot_of
