"""Generated forms of elementwise functions: one compiled pass forward and one backward.

A function is traced once into an expression. Its derivatives are derived from that, and both
become loops in C. Importing this package lets all elementwise units use them where that is safe.
"""

from gatewise.fused.dispatch import elementwise
from gatewise.fused.dispatch import start_recording as start_recording
from gatewise.fused.dispatch import stop_recording as stop_recording
from gatewise.fused.dispatch import without_compiler as without_compiler
from gatewise.fused.own_functions import FusedFunction as FusedFunction
from gatewise.fused.own_functions import fuse as fuse
from gatewise.fused.safe_calls import is_readable as is_readable
from gatewise.fused.safe_calls import is_watched as is_watched
from gatewise.units import FORMS

FORMS[:] = [elementwise]
