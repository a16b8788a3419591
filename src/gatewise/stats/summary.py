"""Means, standard deviations and Student intervals of a few values, one per seed."""

import math
from collections.abc import Sequence

from gatewise.stats.takes_numbers import takes_numbers

CONFIDENCE = 0.999


@takes_numbers
def finite(values: Sequence[float | None]) -> list[float]:
    """Return the values that are finite numbers, in order; None counts as missing."""
    return [float(value) for value in values if value is not None and math.isfinite(value)]


@takes_numbers
def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean, exactly rounded; NaN for no values."""
    if len(values):
        return math.fsum(values) / len(values)
    return math.nan


@takes_numbers
def standard_deviation(values: Sequence[float]) -> float:
    """Return the sample standard deviation (divisor n - 1); 0 for fewer than two values."""
    if len(values) < 2:
        return 0.0
    center = mean(values)
    squares = math.fsum((value - center) ** 2 for value in values)
    return math.sqrt(squares / (len(values) - 1))


@takes_numbers
def half_width(values: Sequence[float], *, compared: int = 1) -> float:
    """Return half the width of Student's 99.9 % interval for the mean.

    Args:
        values: the sample.
        compared: how many such intervals must hold together. The error rate is divided
            among them (Bonferroni).

    Returns:
        The half width; infinity for fewer than two values.
    """
    from scipy.stats import t

    n = len(values)
    if n < 2:
        return math.inf
    quantile = float(t.ppf(1 - (1 - CONFIDENCE) / (2 * compared), n - 1))
    return quantile * standard_deviation(values) / math.sqrt(n)
