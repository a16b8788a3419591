"""Number the learning rates of a study in half steps of its grid."""

import math
from collections.abc import Sequence

import numpy as np

from gatewise.checks import check_count
from gatewise.errors import ArgumentError

# A grid is widened at most this often at each end.
EDGE_ROUNDS = 2
# The fewest planned rates through which a curve is fitted.
FEWEST_RATES = 4
# How far a rate may be from one at exactly equal ratios: 1, 3, 10, 30, 100 is a grid.
RATE_TOLERANCE = 0.055


def equal_ratios(rates: Sequence[float]) -> tuple[float, bool]:
    """Return the mean ratio of neighbouring rates, and whether the rates are at equal ratios.

    Args:
        rates: Two or more, in order.
    """
    ratio = (rates[-1] / rates[0]) ** (1 / (len(rates) - 1))
    off = [abs(math.log(rate / rates[0] / ratio**place)) for place, rate in enumerate(rates)]
    return ratio, max(off) <= math.log1p(RATE_TOLERANCE)


def planned_steps(count: int) -> np.ndarray:
    """Return the half steps of ``count`` planned rates: -4, -2, 0, 2, 4 for five.

    Args:
        count: 1, or at least 4.

    Raises:
        ArgumentError: If there are 2 or 3 rates, or fewer than one.
    """
    check_count("rates", "count", count, least=1)
    if 1 < count < FEWEST_RATES:
        raise ArgumentError(
            "rates: too few learning rates for a curve",
            got=count,
            allowed=f"1, or {FEWEST_RATES} and more",
        )
    return np.arange(-(count - 1), count, 2)


def grid_steps(count: int) -> np.ndarray:
    """Return all half steps that a study with ``count`` planned rates may run.

    These are the planned rates, two more at each end and the rates half-way between. A single
    rate stays alone.

    Args:
        count: 1, or at least 4.
    """
    planned = planned_steps(count)
    if count == 1:
        return planned
    more = 2 * EDGE_ROUNDS
    return np.arange(planned[0] - more, planned[-1] + more + 1)
