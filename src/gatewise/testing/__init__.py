"""The checks of our own tests, for use with your own units and layers."""

from gatewise.testing.activation import check_activation as check_activation
from gatewise.testing.case import Case as Case
from gatewise.testing.contract import CHECKS as CHECKS
from gatewise.testing.contract import Outcome as Outcome
from gatewise.testing.contract import Receipt as Receipt
from gatewise.testing.contract import check_unit as check_unit
from gatewise.testing.layer import LAYER_CHECKS as LAYER_CHECKS
from gatewise.testing.layer import check_layer as check_layer
from gatewise.testing.rounding import Measured as Measured
from gatewise.testing.rounding import Sweep as Sweep
from gatewise.testing.rounding import measure as measure
from gatewise.testing.rounding import sweep_backward as sweep_backward
from gatewise.testing.rounding import sweep_forward as sweep_forward
from gatewise.testing.table import errors_markdown as errors_markdown
from gatewise.testing.ulps import every_16_bit_value as every_16_bit_value
from gatewise.testing.ulps import float32_values as float32_values
from gatewise.testing.ulps import ulps_apart as ulps_apart
from gatewise.testing.vectors import reference_vectors as reference_vectors

# What users call. The other names are for other parts of gatewise.
__all__ = [
    "CHECKS",
    "LAYER_CHECKS",
    "Case",
    "Measured",
    "Outcome",
    "check_activation",
    "check_layer",
    "check_unit",
    "measure",
    "reference_vectors",
]
