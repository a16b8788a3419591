"""Checks that our own tests use, offered to users for their own units."""

from gatewise.testing._case import Case as Case
from gatewise.testing._contract import CHECKS as CHECKS
from gatewise.testing._contract import Outcome as Outcome
from gatewise.testing._contract import Receipt as Receipt
from gatewise.testing._contract import check_unit as check_unit
from gatewise.testing._errors import Measured as Measured
from gatewise.testing._errors import measure as measure
from gatewise.testing._layer import LAYER_CHECKS as LAYER_CHECKS
from gatewise.testing._layer import check_layer as check_layer
from gatewise.testing._table import errors_markdown as errors_markdown
