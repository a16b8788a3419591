"""Paired comparison of results over seeds: exact tests, intervals and the seeds needed.

Note [Paired]. Two units are compared on the same seeds: same data order, same initial values of
the weights they share. The test is on the difference seed by seed, which is less noisy than the
difference of the two means. The test flips the signs of the differences in all 2^n ways (an exact
permutation test). It assumes nothing about their distribution. Its smallest p-value is 2 / 2^n, so
five seeds can never reach 0.05 and six just can.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gatewise.errors import ArgumentError
from gatewise.stats.corrections import holm
from gatewise.stats.sign_flips import permutation_p
from gatewise.stats.summary import mean, standard_deviation

# Pairs: up to this many, all sign patterns are used; beyond, 65,536 random ones.
EXACT_UP_TO = 16
RESAMPLES = 9_999


@dataclass(frozen=True)
class FormerDifference:
    """One unit against the baseline, over the seeds that both have."""

    name: str
    n: int
    mean: float  # of the unit itself
    spread: float  # its standard deviation over seeds; NaN for one seed
    difference: float  # mean of unit minus baseline
    interval: tuple[float, float]  # of that mean, by bootstrap; NaN for fewer than three seeds
    p: float  # two-sided, before correction
    p_corrected: float  # Holm's, over the units compared
    verdict: str  # "better", "worse", "no difference shown", "too few seeds to show any"


@dataclass(frozen=True)
class FormerComparison:
    """All units against one baseline."""

    baseline: str
    baseline_mean: float
    baseline_spread: float
    n: int
    level: float  # the error rate that the verdicts keep
    differences: tuple[FormerDifference, ...]

    def __getitem__(self, name: str) -> FormerDifference:
        return next(row for row in self.differences if row.name == name)


@dataclass(frozen=True)
class PairedDifference:
    """Summary of the differences of two lists of results, seed by seed."""

    n: int  # pairs in which both values are there
    ours: float  # mean of the first list over these pairs
    theirs: float  # mean of the second
    difference: float  # mean of first minus second
    spread: float  # standard deviation of the differences
    below: int  # pairs in which the first value is lower

    @property
    def within_spread(self) -> bool:
        """Whether the mean difference is smaller than its standard deviation."""
        return abs(self.difference) < self.spread


def paired_difference(
    ours: Sequence[float | None], theirs: Sequence[float | None]
) -> PairedDifference:
    """Summarise ``ours - theirs`` seed by seed; pairs with a missing value are left out.

    Args:
        ours: one value per seed; None where the run has no result.
        theirs: the values to subtract, for the same seeds in the same order.

    Returns:
        The summary. Its means are NaN if no pair is complete.
    """
    first: list[float] = []
    second: list[float] = []
    for our, their in zip(ours, theirs, strict=True):
        if our is not None and their is not None:
            first.append(our)
            second.append(their)
    gaps = [our - their for our, their in zip(first, second, strict=True)]
    below = sum(gap < 0 for gap in gaps)
    return PairedDifference(
        n=len(gaps),
        ours=mean(first),
        theirs=mean(second),
        difference=mean(gaps),
        spread=standard_deviation(gaps),
        below=below,
    )


def compare_paired(
    results: Mapping[str, Mapping[int, float]],
    baseline: str,
    *,
    level: float = 0.05,
    higher_is_better: bool = True,
    seed: int = 0,
) -> FormerComparison:
    """Compare every unit's results, by seed, with the baseline's. See Note [Paired].

    Args:
        results: unit to {seed: value}. A value that is not finite (a run that diverged) is an
            error: leave it out, and say so, or replace it by a value.
        baseline: the unit that all others are compared with.
        level: the accepted chance of any wrong verdict.
        higher_is_better: whether a larger value is the better one.
        seed: of the bootstrap.

    Returns:
        One :class:`FormerDifference` per unit. Seeds that one of a pair lacks are left out of that
        pair; ``n`` is the number of pairs.

    Raises:
        ArgumentError: if the baseline has no results, a value is not finite, or a unit shares no
            seed with the baseline.
    """
    _check_results(results, baseline)
    names = [name for name in results if name != baseline]
    pairs = [_pairs(name, results[name], results[baseline]) for name in names]
    p_values = [permutation_p(ours - theirs, seed=seed) for ours, theirs in pairs]
    corrected = holm(p_values)
    differences = []
    for place, name in enumerate(names):
        ours, theirs = pairs[place]
        gap = ours - theirs
        reachable = smallest_p(len(gap)) * len(names) <= level
        gap_mean = float(gap.mean())
        difference = FormerDifference(
            name=name,
            n=len(gap),
            mean=float(ours.mean()),
            spread=_spread(ours),
            difference=gap_mean,
            interval=interval(gap, seed=seed),
            p=p_values[place],
            p_corrected=corrected[place],
            verdict=_verdict(gap_mean, corrected[place], level, higher_is_better, reachable),
        )
        differences.append(difference)
    base = np.array(list(results[baseline].values()))
    return FormerComparison(
        baseline=baseline,
        baseline_mean=float(base.mean()),
        baseline_spread=_spread(base),
        n=len(base),
        level=level,
        differences=tuple(differences),
    )


def interval(
    differences: Sequence[float] | np.ndarray, *, confidence: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Return the bootstrap interval of the mean.

    Args:
        differences: the values; fewer than three give (NaN, NaN), equal ones a point.
        confidence: the coverage of the interval.
        seed: of the resampling.
    """
    from scipy import stats

    gap = np.asarray(differences, dtype=np.float64)
    if len(gap) < 3:
        return math.nan, math.nan
    if np.ptp(gap) == 0:
        return float(gap[0]), float(gap[0])
    bounds = stats.bootstrap(
        (gap,),
        np.mean,
        n_resamples=RESAMPLES,
        confidence_level=confidence,
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return float(bounds.low), float(bounds.high)


def smallest_p(n: int) -> float:
    """Return the smallest two-sided p-value that ``n`` pairs can give."""
    return min(1.0, 2.0 ** (1 - n))


def _check_results(results: Mapping[str, Mapping[int, float]], baseline: str) -> None:
    if baseline not in results:
        raise ArgumentError(
            "compare: the baseline has no results",
            got=baseline,
            allowed=", ".join(map(str, results)),
        )
    for name, values in results.items():
        wrong = [key for key, value in values.items() if not math.isfinite(value)]
        if wrong or not values:
            raise ArgumentError(
                f"compare: {name} has no finite result",
                got=f"seeds {wrong}" if wrong else "no seeds",
            )


def _pairs(
    name: str, ours: Mapping[int, float], theirs: Mapping[int, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of the seeds that both have, as two arrays."""
    seeds = [seed for seed in ours if seed in theirs]
    if not seeds:
        raise ArgumentError(
            f"compare: {name} shares no seed with the baseline",
            got=list(ours),
            allowed=list(theirs),
        )
    return np.array([ours[seed] for seed in seeds]), np.array([theirs[seed] for seed in seeds])


def _spread(values: np.ndarray) -> float:
    """Return numpy's standard deviation, whose last bits stand in the pages of older studies."""
    return float(values.std(ddof=1)) if len(values) > 1 else math.nan


def _verdict(
    difference: float, p: float, level: float, higher_is_better: bool, reachable: bool
) -> str:
    if p <= level:
        return "better" if (difference > 0) == higher_is_better else "worse"
    return "no difference shown" if reachable else "too few seeds to show any"
