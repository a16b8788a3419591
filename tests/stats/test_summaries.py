"""Ranks, summaries and corrections against other computations."""

import math

import numpy as np
import pytest
from scipy import stats

from gatewise.errors import ArgumentError
from gatewise.stats import (
    finite,
    half_width,
    holm,
    mean,
    paired_difference,
    rank,
    rank_trend,
    standard_deviation,
)

RANDOM = np.random.default_rng(0)


def test_holms_correction_keeps_the_order_and_is_never_below_bonferroni_for_the_smallest() -> None:
    p = [0.01, 0.04, 0.03, 0.005]
    assert holm(p) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_ranks_are_counted_ties_shared_and_nemenyis_difference_is_the_published_quantile() -> None:
    table = RANDOM.integers(0, 6, (14, 4)) / 10
    found = rank([dict(zip("abcd", row, strict=True)) for row in table.tolist()])
    for place, name in enumerate("abcd"):
        better = (table > table[:, [place]]).sum(1)
        equal = (table == table[:, [place]]).sum(1)
        assert found.ranks[name] == pytest.approx(np.mean(better + (equal + 1) / 2))
    assert found.critical_difference == pytest.approx(
        2.569 * math.sqrt(4 * 5 / (6 * 14)), rel=1e-3
    )  # q for 4 at 0.05
    assert found.p == pytest.approx(stats.friedmanchisquare(*table.T).pvalue)


def test_too_few_blocks_rank_but_show_nothing() -> None:
    found = rank([{"a": 1.0, "b": 2.0, "c": 3.0}])
    assert (
        found.ranks == {"a": 3.0, "b": 2.0, "c": 1.0}
        and math.isinf(found.critical_difference)
        and found.p == 1
    )
    assert rank([{"a": 1.0, "b": 1.0, "c": 1.0}] * 3).p == 1


def test_summaries_are_those_of_numpy_and_leave_out_what_is_missing() -> None:
    values = RANDOM.normal(size=7).tolist()
    assert mean(values) == pytest.approx(np.mean(values), rel=1e-14)
    assert standard_deviation(values) == pytest.approx(np.std(values, ddof=1), rel=1e-14)
    assert math.isnan(mean([])) and standard_deviation([2.0]) == 0.0
    assert finite([1, None, math.nan, -math.inf, 2.5]) == [1.0, 2.5]
    low, high = stats.t.interval(0.999, 6, np.mean(values), stats.sem(values))
    assert half_width(values) == pytest.approx((high - low) / 2)


def test_pairs_with_a_missing_value_are_left_out() -> None:
    gap = paired_difference([1.0, None, 5.0, 2.0], [2.0, 1.0, 3.0, None])
    assert (gap.n, gap.ours, gap.theirs, gap.below) == (2, 3.0, 2.5, 1)
    assert gap.difference == 0.5 and gap.spread == pytest.approx(np.std([-1, 2], ddof=1))
    assert gap.within_spread
    empty = paired_difference([None], [1.0])
    assert empty.n == 0 and math.isnan(empty.difference) and not empty.within_spread


def test_a_trend_is_spearmans_correlation_with_the_place() -> None:
    assert rank_trend([1.0, 2.0, 4.0, 9.0])[0] == pytest.approx(1.0)
    values = RANDOM.normal(size=9).tolist()
    want = stats.spearmanr(range(9), values)
    assert rank_trend(values) == pytest.approx((want.statistic, want.pvalue))


def test_wrong_blocks_are_refused() -> None:
    with pytest.raises(ArgumentError):
        rank([])
    with pytest.raises(ArgumentError, match="same units"):
        rank([{"a": 1.0, "b": 2.0}, {"a": 1.0, "c": 2.0}])
