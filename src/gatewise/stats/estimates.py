"""Student's estimates of a difference of means: of pairs, of separate runs, and of a mixture.

Note [One interval]. A difference is decided by the two ends of one interval, and by nothing else.
The p-value is computed from the same estimate, standard error and degrees of freedom. It is at or
below the level exactly when zero lies outside the interval. Student's interval is used because it
is the narrowest that keeps its coverage on symmetric and on discrete data from three seeds on;
docs/statistics.md has the numbers.
"""

import functools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gatewise.stats.summary import mean, standard_deviation

FEWEST = 3  # runs: with fewer there is no interval
ENOUGH_PAIRS = 0.7  # of the larger group: then the runs without a partner are left out
# Relative to the largest value: a spread below this is rounding, not noise.
ROUNDING = 1e-14
PAIRED = "paired t"
WELCH = "Welch's t"
OVERLAPPING = "partially overlapping t"


@dataclass(frozen=True)
class Estimate:
    """A difference of two means with its standard error.

    Attributes:
        difference: The first mean minus the second.
        standard_error: Of the difference.
        freedom: Degrees of freedom of the standard error.
        spread: Standard deviation of the difference of two single runs.
        n: Complete pairs, or runs of the first group if the runs are not paired.
        method: The name of the test.
        pairs: The differences of the complete pairs; empty if the runs are not paired.
        flat: Whether all differences are equal and the resolution of the metric is not known.
            Their noise cannot be estimated then. They decide by their signs alone, and the
            interval exists only where the signs are enough.
    """

    difference: float
    standard_error: float
    freedom: float
    spread: float
    n: int
    method: str
    pairs: tuple[float, ...] = ()
    flat: bool = False

    @property
    def known(self) -> bool:
        """Whether the runs were enough for a standard error."""
        return math.isfinite(self.standard_error) and self.standard_error > 0

    def bounds(self, alpha: float) -> tuple[float, float]:
        """Return the ends of the two-sided interval at level ``1 - alpha``; NaN if not known."""
        if not self.known or (self.flat and 2 * self._p_of_signs() > alpha):
            return math.nan, math.nan
        half = t_quantile(alpha / 2, self.freedom) * self.standard_error
        return self.difference - half, self.difference + half

    def p_above(self) -> float:
        """Return the one-sided p-value of a difference above zero; NaN if not known."""
        return self._p(self.difference)

    def p_below(self) -> float:
        """Return the one-sided p-value of a difference below zero; NaN if not known."""
        return self._p(-self.difference)

    def _p(self, difference: float) -> float:
        """Return the probability of at least this difference if there were none."""
        if not self.known:
            return math.nan
        if self.flat:
            return self._p_of_signs() if difference > 0 else 1.0
        return t_tail(difference / self.standard_error, self.freedom)

    def _p_of_signs(self) -> float:
        """Return the probability that all differences have the same given sign."""
        return 2.0**-self.n

    def reversed(self) -> "Estimate":
        """Return the second mean minus the first."""
        return Estimate(
            difference=-self.difference,
            standard_error=self.standard_error,
            freedom=self.freedom,
            spread=self.spread,
            n=self.n,
            method=self.method,
            pairs=tuple(-gap for gap in self.pairs),
            flat=self.flat,
        )


@functools.lru_cache(maxsize=4096)
def t_quantile(tail: float, freedom: float) -> float:
    """Return the value that Student's t exceeds with probability ``tail``."""
    from scipy import special

    return -float(special.stdtrit(freedom, tail))


def t_tail(value: float, freedom: float) -> float:
    """Return the probability that Student's t exceeds ``value``."""
    from scipy import special

    return float(special.stdtr(freedom, -value))


def estimate(
    ours: Mapping[Any, float],
    theirs: Mapping[Any, float],
    *,
    resolution: float = 0.0,
    paired: bool | None = None,
) -> Estimate:
    """Estimate the mean of ``ours`` minus that of ``theirs``.

    Runs with the same seed are pairs. If the pairs are at least 70 % of the larger group, the
    other runs are left out. With fewer pairs the test for partially overlapping samples uses all
    runs. Without pairs it is Welch's.

    Args:
        ours: Value by seed; all finite.
        theirs: The values to subtract.
        resolution: The smallest step of the metric. No standard deviation is taken to be smaller.
        paired: False to ignore that seeds are equal.
    """
    shared = [] if paired is False else [seed for seed in ours if seed in theirs]
    largest = max(len(ours), len(theirs), 1)
    if paired or len(shared) >= ENOUGH_PAIRS * largest:
        gaps = [ours[seed] - theirs[seed] for seed in shared]
        scale = max((max(abs(ours[seed]), abs(theirs[seed])) for seed in shared), default=0.0)
        return of_pairs(gaps, resolution=resolution, scale=scale)
    if len(shared) < FEWEST:
        return _welch(list(ours.values()), list(theirs.values()), resolution)
    return _overlapping(ours, theirs, shared, resolution)


def of_pairs(
    gaps: Sequence[float],
    *,
    resolution: float = 0.0,
    scale: float | None = None,
) -> Estimate:
    """Estimate the mean of paired differences.

    Args:
        gaps: One difference per pair.
        resolution: The smallest step of the metric.
        scale: The largest value that was subtracted, which limits the rounding of the
            differences. By default the largest difference.
    """
    n = len(gaps)
    largest = max(map(abs, gaps), default=0.0)
    rounding = ROUNDING * (largest if scale is None else scale)
    spread = spread_of(gaps) if n > 1 else math.nan
    flat = n >= FEWEST and resolution == 0 and spread <= rounding
    error = math.nan
    if n >= FEWEST and not (flat and largest <= rounding):
        error = max(spread, resolution, rounding) / math.sqrt(n)
    return Estimate(
        difference=mean(gaps),
        standard_error=error,
        freedom=float(n - 1),
        spread=spread if n < FEWEST else max(spread, resolution),
        n=n,
        method=PAIRED,
        pairs=tuple(gaps),
        flat=flat,
    )


def spread_of(values: Sequence[float]) -> float:
    """Return the standard deviation, scaled so that squares neither overflow nor vanish."""
    largest = max(map(abs, values))
    if largest == 0:
        return 0.0
    return largest * standard_deviation([value / largest for value in values])


def _welch(ours: Sequence[float], theirs: Sequence[float], resolution: float) -> Estimate:
    """Estimate the difference of two separate groups."""
    gap = mean(ours) - mean(theirs)
    if min(len(ours), len(theirs)) < FEWEST:
        return Estimate(gap, math.nan, math.nan, math.nan, len(ours), WELCH)
    our_error, their_error, spread = _two_spreads(ours, theirs, resolution)
    return Estimate(
        difference=gap,
        standard_error=math.hypot(our_error, their_error),
        freedom=_welch_freedom(our_error, len(ours), their_error, len(theirs)),
        spread=spread,
        n=len(ours),
        method=WELCH,
    )


def _overlapping(
    ours: Mapping[Any, float],
    theirs: Mapping[Any, float],
    shared: Sequence[Hashable],
    resolution: float,
) -> Estimate:
    """Estimate the difference of groups that share some seeds (Derrick et al., 2017)."""
    first = list(ours.values())
    second = list(theirs.values())
    our_error, their_error, spread = _two_spreads(first, second, resolution)
    correlation = _correlation([ours[s] for s in shared], [theirs[s] for s in shared])
    pairs = len(shared)
    # Covariance of the two means: only the shared seeds contribute.
    covariance = correlation * our_error * their_error * pairs / math.sqrt(len(first) * len(second))
    variance = our_error**2 + their_error**2 - 2 * covariance
    floor = (max(resolution, ROUNDING * max(map(abs, [*first, *second])))) ** 2 / pairs
    runs = len(first) + len(second)
    alone = runs - 2 * pairs
    welch = _welch_freedom(our_error, len(first), their_error, len(second))
    return Estimate(
        difference=mean(first) - mean(second),
        standard_error=math.sqrt(max(variance, floor)),
        freedom=pairs - 1 + (welch - pairs + 1) * alone / runs,
        spread=spread,
        n=pairs,
        method=OVERLAPPING,
        pairs=tuple(ours[seed] - theirs[seed] for seed in shared),
    )


def _two_spreads(
    ours: Sequence[float],
    theirs: Sequence[float],
    resolution: float,
) -> tuple[float, float, float]:
    """Return the standard errors of two means, and the spread of a difference of two runs.

    They are NaN if no run differs from another of its group and the resolution is not known.
    """
    rounding = ROUNDING * max(map(abs, [*ours, *theirs]))
    first = spread_of(ours)
    second = spread_of(theirs)
    if resolution == 0 and max(first, second) <= rounding:
        return math.nan, math.nan, math.nan
    first = max(first, resolution, rounding)
    second = max(second, resolution, rounding)
    errors = first / math.sqrt(len(ours)), second / math.sqrt(len(theirs))
    return *errors, math.hypot(first, second)


def _welch_freedom(first: float, n: int, second: float, m: int) -> float:
    """Return Satterthwaite's degrees of freedom of two squared standard errors."""
    largest = max(first, second)
    if largest == 0:
        return float(min(n, m) - 1)
    one = (first / largest) ** 2
    two = (second / largest) ** 2
    return (one + two) ** 2 / (one**2 / (n - 1) + two**2 / (m - 1))


def _correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the correlation of pairs; 0 where one side does not vary."""
    one = np.array(first) - mean(first)
    two = np.array(second) - mean(second)
    scale = max(float(np.abs(one).max()), float(np.abs(two).max()), 1e-300)
    size = math.sqrt(float((one / scale) @ (one / scale)) * float((two / scale) @ (two / scale)))
    if size:
        return float((one / scale) @ (two / scale)) / size
    return 0.0
