"""Generated forms of elementwise functions: one compiled pass forward and one backward.

A function is traced once into an expression. Its derivatives are derived from that, and both
become loops in C. IIEU-B with its convolution and batch norm is a block of a few passes. Importing
this package lets all units use these forms where that is safe.
"""

from gatewise.fused.crelu_pass import both_halves
from gatewise.fused.dispatch import elementwise
from gatewise.fused.dispatch import start_recording as start_recording
from gatewise.fused.dispatch import stop_recording as stop_recording
from gatewise.fused.dispatch import without_compiler as without_compiler
from gatewise.fused.iieu_block import run_block as run_block
from gatewise.fused.own_functions import FusedFunction as FusedFunction
from gatewise.fused.own_functions import fuse as fuse
from gatewise.fused.phase_convolution import Geometry as Geometry
from gatewise.fused.phase_convolution import convolve_halves as convolve_halves
from gatewise.fused.safe_calls import is_readable as is_readable
from gatewise.fused.safe_calls import is_watched as is_watched
from gatewise.units import BOUND_FORMS, FORMS, HALVES_FORMS

FORMS[:] = [elementwise]
BOUND_FORMS[:] = [run_block]
HALVES_FORMS[:] = [both_halves]
