"""Compiled products and Winograd transforms, used where they are available and faster."""

from gatewise.analysis.tangent_kernel.compiled.products import Forwards as Forwards
from gatewise.analysis.tangent_kernel.compiled.products import add_products as add_products
from gatewise.analysis.tangent_kernel.compiled.products import (
    replaced_forwards as replaced_forwards,
)
from gatewise.analysis.tangent_kernel.compiled.skinny_matmul import (
    skinny_forwards as skinny_forwards,
)
from gatewise.analysis.tangent_kernel.compiled.winograd import TAPS as TAPS
from gatewise.analysis.tangent_kernel.compiled.winograd import (
    compiled_multiplications as compiled_multiplications,
)
from gatewise.analysis.tangent_kernel.compiled.winograd import input_slopes as input_slopes
from gatewise.analysis.tangent_kernel.compiled.winograd import multiplications as multiplications
from gatewise.analysis.tangent_kernel.compiled.winograd import weight_gradients as weight_gradients
from gatewise.analysis.tangent_kernel.compiled.winograd_native import (
    has_compiled_tiles as has_compiled_tiles,
)
