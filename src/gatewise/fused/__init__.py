"""Fast forms of units: one compiled pass forward and one back, where that is safe.

Importing this part enters them.
"""

from functools import partial

from gatewise.fused.dispatch import elementwise
from gatewise.fused.kernels import KERNELS
from gatewise.units import FORMS

FORMS.update({kernel: partial(elementwise, number) for number, kernel in enumerate(KERNELS)})
