"""Mean ranks over several networks or data sets, with Friedman's and Nemenyi's tests."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gatewise.errors import ArgumentError
from gatewise.stats.checks import check_level, check_number, takes_numbers

# Data sets: with fewer, Friedman's and Nemenyi's tests can hardly reject anything. Networks on one
# data set are not independent blocks.
FEWEST_DATA_SETS = 10


@dataclass(frozen=True)
class Ranking:
    """Mean ranks over blocks (1 is best), and the difference that two ranks must have."""

    ranks: Mapping[str, float]
    blocks: int
    p: float  # Friedman's test that all units are equal
    critical_difference: float  # Nemenyi's; infinite if there are too few blocks


@takes_numbers
def enough_to_rank(data_sets: Iterable[Hashable]) -> bool:
    """Return whether blocks on these data sets are enough for ranks to be shown.

    Args:
        data_sets: The data set of every block; each counts once.
    """
    return len(set(data_sets)) >= FEWEST_DATA_SETS


@takes_numbers
def rank(
    blocks: Sequence[Mapping[str, float]],
    *,
    level: float = 0.05,
    higher_is_better: bool = True,
) -> Ranking:
    """Rank the units within each block and test whether their mean ranks differ.

    Args:
        blocks: unit to value, one mapping per block (a backbone on a data set). Every block has
            the same two or more units.
        level: the error rate of Nemenyi's critical difference.
        higher_is_better: whether rank 1 is the largest value.

    Returns:
        Mean ranks, Friedman's p-value and Nemenyi's difference. With one block or two units the
        p-value is 1 and the difference infinite.

    Raises:
        ArgumentError: if there are no blocks, or blocks with different units.
    """
    from scipy import stats

    check_level(level, "rank: level")
    if isinstance(blocks, str | Mapping) or not all(isinstance(one, Mapping) for one in blocks):
        raise ArgumentError("rank: blocks must be a list of mappings", got=type(blocks).__name__)
    if not blocks:
        raise ArgumentError("rank: no blocks", got=0, allowed="one or more")
    names = list(blocks[0])
    if any(set(block) != set(names) for block in blocks) or len(names) < 2:
        raise ArgumentError(
            "rank: every block must have the same units, two or more",
            got=[list(block) for block in blocks],
        )
    for block in blocks:
        for name, value in block.items():
            check_number(value, f"rank: the value of {name}")
    values = np.array([[block[name] for name in names] for block in blocks])
    ranks = stats.rankdata(-values if higher_is_better else values, axis=1)
    means = dict(zip(names, ranks.mean(0).tolist(), strict=True))
    n, k = ranks.shape
    if n < 2 or k < 3:
        return Ranking(means, n, 1.0, math.inf)
    all_tied = bool((ranks == ranks[:, :1]).all())
    p = 1.0 if all_tied else float(stats.friedmanchisquare(*ranks.T).pvalue)
    quantile = stats.studentized_range.ppf(1 - level, k, np.inf) / math.sqrt(2)
    critical = float(quantile) * math.sqrt(k * (k + 1) / (6 * n))
    return Ranking(means, n, p, critical)


@takes_numbers
def rank_trend(values: Sequence[float]) -> tuple[float, float]:
    """Return Spearman's rank correlation of the values with their place, and its p-value."""
    from scipy import stats

    result: Any = stats.spearmanr(range(len(values)), values)
    return float(result.statistic), float(result.pvalue)
