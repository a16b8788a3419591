"""The trend of values by their ranks."""

from collections.abc import Sequence
from typing import Any

from gatewise.stats.takes_numbers import takes_numbers


@takes_numbers
def rank_trend(values: Sequence[float]) -> tuple[float, float]:
    """Return Spearman's rank correlation of the values with their place, and its p-value."""
    from scipy import stats

    result: Any = stats.spearmanr(range(len(values)), values)
    return float(result.statistic), float(result.pvalue)
