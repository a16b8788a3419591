"""A convolution, a batch norm and IIEU-B as one block of compiled C."""

from gatewise.units.block.iieu_block import run_block as run_block
