"""The exact sign-flip test of a mean difference, in bounded memory.

Note [Sign flips]. Under the hypothesis that two units do not differ, every paired difference could
as well have the other sign. The p-value is the share of the 2^n sign patterns whose sum is at least
as far from zero. The patterns need not be listed. Up to 40 pairs the sums of both halves are sorted
and counted against each other. Differences that are whole multiples of a step (1 / test examples)
have a distribution that is built one value at a time, for any n. Only otherwise are patterns drawn
at random.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gatewise.errors import ArgumentError

HALVES_UP_TO = 40  # pairs: 2^20 sums a half
# Relative to the sum of absolute differences: sums closer than this are equal up to rounding.
TIED = 1e-9
FIRST_STEPS = 64  # the smallest difference is at most this many steps
FEW = 8  # values by which steps are tried
WHOLE = 1e-6  # a number this close to a whole one is one
MOST_WORK = 2e9  # additions for the exact distribution
MOST_SUM = 500_000  # steps in all: the distribution and a copy of it take 8 MB
DRAWS = 200_000
CHUNK = 2**20  # signs drawn at once


def permutation_p(differences: Sequence[float] | np.ndarray, *, seed: int = 0) -> float:
    """Return the two-sided p-value of the mean difference under sign flips.

    See Note [Sign flips].

    Args:
        differences: One per pair. With no pair or only zeros the p-value is 1.
        seed: Of the random sign patterns, which are used only beyond 40 pairs whose differences
            have no common step.

    Raises:
        ArgumentError: If a difference is not a finite number.
    """
    gaps = _finite_array(differences)
    sizes = np.abs(gaps)
    largest = float(sizes.max(initial=0.0))
    if largest == 0:
        return 1.0
    # Scaled so that sums of huge or tiny values stay finite and normal.
    gaps = gaps / largest
    sizes = np.sort(np.abs(gaps)[gaps != 0])
    observed = abs(float(gaps.sum()))
    if observed <= TIED * sizes.sum():
        return 1.0
    steps = _whole_steps(sizes)
    if steps is not None:
        step = float(sizes[-1]) / int(steps[-1])
        return _p_by_distribution(steps, round(observed / step))
    if len(sizes) <= HALVES_UP_TO:
        return _p_by_halves(sizes, observed)
    return _p_by_drawing(sizes, observed, seed)


def smallest_flip_p(n: int) -> float:
    """Return the smallest two-sided p-value that ``n`` pairs can give."""
    return min(1.0, 2.0 ** (1 - n))


def _finite_array(differences: Any) -> np.ndarray:
    """Return the differences as an array of finite numbers, or raise."""
    try:
        gaps = np.asarray(differences, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as problem:
        raise ArgumentError(
            "permutation_p: the differences are not numbers", got=differences
        ) from problem
    if gaps.ndim != 1 or not np.isfinite(gaps).all():
        raise ArgumentError("permutation_p: a list of finite numbers is needed", got=differences)
    return gaps


def _p_by_halves(sizes: np.ndarray, observed: float) -> float:
    """Count the pairs of half sums that reach the observed sum, by binary search."""
    threshold = observed - TIED * float(sizes.sum())
    half = len(sizes) // 2
    left = _sorted_sums(sizes[:half])
    right = _sorted_sums(sizes[half:])
    below = int(np.searchsorted(right, threshold - left, side="left").sum(dtype=np.int64))
    reached = len(left) * len(right) - below
    return min(1.0, 2 * reached / 2.0 ** len(sizes))


def _sorted_sums(sizes: np.ndarray) -> np.ndarray:
    """Return all sums of the values with both signs, sorted."""
    sums = np.zeros(1)
    for size in sizes:
        # A stable sort merges the two sorted runs.
        sums = np.sort(np.concatenate((sums - size, sums + size)), kind="stable")
    return sums


def _whole_steps(sizes: np.ndarray) -> np.ndarray | None:
    """Return the values as whole numbers of a common step; None if no step was found."""
    counts = np.arange(1, FIRST_STEPS + 1) / float(sizes[0])
    # A few values rule out most steps.
    few = counts[:, None] * sizes[:FEW]
    for count in counts[np.abs(few - np.rint(few)).max(1) < WHOLE]:
        steps = sizes * count
        whole = np.rint(steps)
        total = whole.sum()
        if total > MOST_SUM or total * len(whole) > MOST_WORK:
            return None
        if np.abs(steps - whole).max() < WHOLE:
            return whole.astype(np.int64)
    return None


def _p_by_distribution(steps: np.ndarray, observed: int) -> float:
    """Return the p-value from the exact distribution of a sum of whole numbers."""
    total = int(steps.sum())
    # chance[j]: the probability that the values with a minus sign sum to j.
    chance = np.zeros(total + 1)
    chance[0] = 1.0
    top = 0
    for step in steps.tolist():
        chance[step : top + step + 1] += chance[: top + 1].copy()
        top += step
        chance[: top + 1] *= 0.5
    return float(min(1.0, 2 * chance[: (total - observed) // 2 + 1].sum()))


def _p_by_drawing(sizes: np.ndarray, observed: float, seed: int) -> float:
    """Return the p-value from random sign patterns, drawn in chunks of bounded size."""
    random = np.random.default_rng(seed)
    total = float(sizes.sum())
    threshold = observed - TIED * total
    rows = max(1, CHUNK // len(sizes))
    reached = 0
    drawn = 0
    while drawn < DRAWS:
        count = min(rows, DRAWS - drawn)
        packed = random.integers(0, 256, (count, (len(sizes) + 7) // 8), dtype=np.uint8)
        minus = np.unpackbits(packed, axis=1, count=len(sizes))
        reached += int((np.abs(total - 2 * (minus @ sizes)) >= threshold).sum())
        drawn += count
    # The observed pattern counts as one draw, which keeps the p-value valid.
    return (reached + 1) / (drawn + 1)
