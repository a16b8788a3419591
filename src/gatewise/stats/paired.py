"""What the runs of a study show.

Paired differences with intervals and corrected tests, ranks, and seeds needed.

Note [Paired]. Two units are compared on the same seeds: same data order, same first values of the
weights they share. What is tested is the difference seed by seed, which is less noisy than the two
means apart. The test flips the signs of the differences in all 2^n ways (an exact permutation
test): it assumes nothing of their distribution, and its smallest p-value is 2 / 2^n, so that five
seeds can never reach 0.05 and six just can.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gatewise.errors import ArgumentError
from gatewise.stats.corrections import holm

EXACT_UP_TO = 16  # pairs: all 65,536 sign patterns are looked at; beyond, that many drawn at random
RESAMPLES = 9_999
# an effect so many times the cut is shown for certain, and far beyond it scipy's power is NaN
CERTAIN = 8.0
TIED = (
    1e-9  # of the largest difference: sums that would be equal, were floats exact, count as equal
)


@dataclass(frozen=True)
class Difference:
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
class Comparison:
    """All units against one baseline."""

    baseline: str
    baseline_mean: float
    baseline_spread: float
    n: int
    level: float  # the error rate that the verdicts keep
    differences: tuple[Difference, ...]

    def __getitem__(self, name: str) -> Difference:
        return next(one for one in self.differences if one.name == name)


@dataclass(frozen=True)
class Ranking:
    """Mean ranks over blocks (1 is best), and how far apart two must be."""

    ranks: Mapping[str, float]
    blocks: int
    p: float  # Friedman's test that all are alike
    critical_difference: float  # Nemenyi's; infinite where there are too few blocks to say


def compare_paired(
    results: Mapping[str, Mapping[int, float]],
    baseline: str,
    *,
    level: float = 0.05,
    higher_is_better: bool = True,
    seed: int = 0,
) -> Comparison:
    """Compare every unit's results, by seed, with the baseline's. See Note [Paired].

    Args: results: unit to {seed: value}. level: the chance of any wrong verdict that is accepted.
        seed: of the bootstrap.

    Seeds that one of a pair lacks are left out of that pair, and ``n`` says how many were there. A
    value that is not finite (a run that diverged) is an error: leave it out, and say so, or give it
    a value.
    """
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
    others = [name for name in results if name != baseline]
    pairs = {name: _pairs(name, results[name], results[baseline]) for name in others}
    p_values = [permutation_p(ours - theirs, seed=seed) for ours, theirs in pairs.values()]
    found = []
    for (name, (ours, theirs)), p, corrected in zip(
        pairs.items(), p_values, holm(p_values), strict=True
    ):
        gap = ours - theirs
        reachable = smallest_p(len(gap)) * len(others) <= level
        verdict = _verdict(float(gap.mean()), corrected, level, higher_is_better, reachable)
        found.append(
            Difference(
                name,
                len(gap),
                float(ours.mean()),
                _spread(ours),
                float(gap.mean()),
                interval(gap, seed=seed),
                p,
                corrected,
                verdict,
            )
        )
    own = np.array(list(results[baseline].values()))
    return Comparison(baseline, float(own.mean()), _spread(own), len(own), level, tuple(found))


def permutation_p(differences: Sequence[float] | np.ndarray, *, seed: int = 0) -> float:
    """Two-sided p-value of the mean difference under flips of sign, exact up to 16 pairs."""
    from scipy import stats

    gap = np.asarray(differences, dtype=np.float64)
    if not len(gap) or not np.any(gap):
        return 1.0
    if len(gap) == 1:
        return 1.0
    null = stats.permutation_test(
        (gap,),
        lambda x, axis: x.mean(axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=2**EXACT_UP_TO,  # all of them where there are no more
        rng=np.random.default_rng(seed),
    ).null_distribution
    extreme = np.abs(null) >= abs(gap.mean()) - TIED * np.abs(gap).max()
    return (
        float(extreme.mean())
        if len(gap) <= EXACT_UP_TO
        else float((extreme.sum() + 1) / (len(null) + 1))
    )


def interval(
    differences: Sequence[float] | np.ndarray, *, confidence: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Bootstrap interval of the mean.

    (NaN, NaN) for fewer than three values, a point where all are equal.
    """
    from scipy import stats

    gap = np.asarray(differences, dtype=np.float64)
    if len(gap) < 3:
        return math.nan, math.nan
    if np.ptp(gap) == 0:
        return float(gap[0]), float(gap[0])
    found = stats.bootstrap(
        (gap,),
        np.mean,
        n_resamples=RESAMPLES,
        confidence_level=confidence,
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return float(found.low), float(found.high)


def smallest_p(n: int) -> float:
    """The smallest two-sided p-value that ``n`` pairs can give."""
    return min(1.0, 2.0 ** (1 - n))


def seeds_needed(
    effect: float, spread: float, *, level: float = 0.05, power: float = 0.8, comparisons: int = 1
) -> int:
    """Seeds with which a paired difference of ``effect`` is shown with probability ``power``.

    ``spread`` is the standard deviation of the differences, ``comparisons`` how many units are
    compared (the level is shared among them). By the t-test's power, and never fewer than the exact
    test needs to reach the level at all.
    """
    from scipy import stats

    if not (effect > 0 and spread >= 0 and 0 < level < 1 and 0 < power < 1 and comparisons >= 1):
        raise ArgumentError(
            "seeds_needed: wrong arguments",
            got={
                "effect": effect,
                "spread": spread,
                "level": level,
                "power": power,
                "comparisons": comparisons,
            },
            allowed="effect > 0, spread >= 0, level and power within (0, 1), comparisons >= 1",
        )
    alpha = level / comparisons
    n = next(n for n in range(2, 10_000) if smallest_p(n) <= alpha)
    while n < 1_000_000:
        shift = effect / spread * math.sqrt(n) if spread else math.inf
        cut = stats.t.ppf(1 - alpha / 2, n - 1)
        if shift > CERTAIN * cut or stats.nct.sf(cut, n - 1, shift) >= power:
            return n
        n += max(1, n // 50)
    raise ArgumentError(
        "seeds_needed: more than a million seeds", got=f"effect {effect} with spread {spread}"
    )


def rank(
    blocks: Sequence[Mapping[str, float]], *, level: float = 0.05, higher_is_better: bool = True
) -> Ranking:
    """Ranks within each block (a backbone on a data set), their means, Friedman's test and Nemenyi's difference."""
    from scipy import stats

    if not blocks:
        raise ArgumentError("rank: no blocks", got=0, allowed="one or more")
    names = list(blocks[0])
    if any(set(block) != set(names) for block in blocks) or len(names) < 2:
        raise ArgumentError(
            "rank: every block must have the same units, two or more", got=[list(b) for b in blocks]
        )
    values = np.array([[block[name] for name in names] for block in blocks])
    ranks = stats.rankdata(-values if higher_is_better else values, axis=1)
    n, k = ranks.shape
    if n < 2 or k < 3:
        return Ranking(dict(zip(names, ranks.mean(0).tolist(), strict=True)), n, 1.0, math.inf)
    alike = bool((ranks == ranks[:, :1]).all())
    p = 1.0 if alike else float(stats.friedmanchisquare(*ranks.T).pvalue)
    q = stats.studentized_range.ppf(1 - level, k, np.inf) / math.sqrt(2)
    apart = float(q) * math.sqrt(k * (k + 1) / (6 * n))
    return Ranking(dict(zip(names, ranks.mean(0).tolist(), strict=True)), n, p, apart)


def _pairs(
    name: str, ours: Mapping[int, float], theirs: Mapping[int, float]
) -> tuple[np.ndarray, np.ndarray]:
    seeds = [seed for seed in ours if seed in theirs]
    if not seeds:
        raise ArgumentError(
            f"compare: {name} shares no seed with the baseline",
            got=list(ours),
            allowed=list(theirs),
        )
    return np.array([ours[seed] for seed in seeds]), np.array([theirs[seed] for seed in seeds])


def _spread(values: np.ndarray) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else math.nan


def _verdict(
    difference: float, p: float, level: float, higher_is_better: bool, reachable: bool
) -> str:
    if p <= level:
        return "better" if (difference > 0) == higher_is_better else "worse"
    return "no difference shown" if reachable else "too few seeds to show any"
