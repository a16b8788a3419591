"""Statistics of a study against brute force and simulation."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from gatewise.errors import ArgumentError
from gatewise.stats import (
    compare_paired,
    finite,
    half_width,
    holm,
    interval,
    mean,
    paired_difference,
    permutation_p,
    rank,
    rank_trend,
    seeds_needed,
    smallest_p,
    standard_deviation,
)

RANDOM = np.random.default_rng(0)


def by_seed(values: np.ndarray) -> dict[int, float]:
    return {seed: float(value) for seed, value in enumerate(values)}


@pytest.mark.parametrize("n", [2, 3, 5, 8, 10])
def test_the_permutation_test_counts_every_flip_of_signs(n: int) -> None:
    gap = RANDOM.normal(0.4, 1, n)
    means = [abs(np.mean(np.array(signs) * gap)) for signs in itertools.product((1, -1), repeat=n)]
    want = np.mean(np.array(means) >= abs(gap.mean()) * (1 - 1e-12))
    assert permutation_p(gap) == pytest.approx(want)


@pytest.mark.parametrize("seed", range(20))
def test_sums_that_are_equal_but_for_rounding_count_as_equal(seed: int) -> None:
    """Accuracies are counts over the size of the test set, so flips often tie.

    Whole numbers say how many do.
    """
    right = np.random.default_rng(seed).integers(1380, 1400, (2, 10))
    gap = right[0] - right[1]
    sums = [abs(int(np.dot(signs, gap))) for signs in itertools.product((1, -1), repeat=10)]
    want = float(np.mean([each >= abs(int(gap.sum())) for each in sums]))
    assert permutation_p(right[0] / 1497 - right[1] / 1497) == want


def test_the_smallest_p_is_reached_when_all_differences_have_one_sign() -> None:
    for n in range(2, 12):
        assert permutation_p(RANDOM.uniform(1, 2, n)) == pytest.approx(smallest_p(n))
    assert smallest_p(5) > 0.05 > smallest_p(6)


def test_without_a_difference_p_values_are_no_smaller_than_uniform() -> None:
    p = np.array([permutation_p(RANDOM.normal(0, 1, 8)) for _ in range(400)])
    for level in (0.05, 0.1, 0.3):
        assert np.mean(p <= level) <= level + 3.3 * math.sqrt(level * (1 - level) / 400)
    assert (
        permutation_p([0.0, 0.0, 0.0]) == 1 and permutation_p([1.0]) == 1 and permutation_p([]) == 1
    )


def test_many_pairs_are_sampled_and_agree_with_the_t_test() -> None:
    gap = RANDOM.normal(0.3, 1, 60)
    assert permutation_p(gap) == pytest.approx(stats.ttest_1samp(gap, 0).pvalue, abs=0.02)


def test_holms_correction_keeps_the_order_and_is_never_below_bonferroni_for_the_smallest() -> None:
    p = [0.01, 0.04, 0.03, 0.005]
    assert holm(p) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_the_interval_covers_the_true_mean_about_as_often_as_it_says() -> None:
    inside = 0
    for _ in range(120):
        low, high = interval(RANDOM.normal(2.0, 1, 12), seed=1)
        inside += low <= 2.0 <= high
    assert (
        inside / 120 > 0.84
    )  # 0.95 less the small-sample shortfall of a bootstrap and 3.3 standard errors
    assert interval([1.0, 1.0, 1.0]) == (1.0, 1.0) and math.isnan(interval([1.0, 2.0])[0])


def test_verdicts_say_better_worse_nothing_shown_or_too_few_seeds() -> None:
    base = RANDOM.normal(0.9, 0.01, 10)
    noise = RANDOM.normal(0, 0.002, 10)
    noise -= noise.mean()
    results = {
        "relu": by_seed(base),
        "up": by_seed(base + 0.02),
        "down": by_seed(base - 0.02 + noise),
        "same": by_seed(base + noise),
    }
    found = compare_paired(results, "relu")
    assert {one.name: one.verdict for one in found.differences} == {
        "up": "better",
        "down": "worse",
        "same": "no difference shown",
    }
    assert found["up"].difference == pytest.approx(0.02) and found["up"].interval == pytest.approx(
        (0.02, 0.02)
    )
    assert (
        found["up"].p == pytest.approx(smallest_p(10)) and found["up"].p_corrected >= found["up"].p
    )
    assert found.baseline_mean == pytest.approx(base.mean()) and found.n == 10
    lower = compare_paired(results, "relu", higher_is_better=False)
    assert lower["up"].verdict == "worse" and lower["down"].verdict == "better"
    few = {
        name: {seed: v for seed, v in values.items() if seed < 5}
        for name, values in results.items()
    }
    assert compare_paired(few, "relu")["up"].verdict == "too few seeds to show any"


def test_only_seeds_that_both_have_are_paired() -> None:
    found = compare_paired({"a": {0: 1.0, 1: 2.0, 2: 3.0}, "b": {1: 2.5, 2: 3.5, 7: 100.0}}, "a")
    assert found["b"].n == 2 and found["b"].difference == pytest.approx(0.5)


def test_the_seeds_needed_give_the_power_they_promise() -> None:
    n = seeds_needed(0.8, 1.0)
    rates = [
        np.mean([stats.ttest_1samp(RANDOM.normal(0.8, 1, m), 0).pvalue < 0.05 for _ in range(1500)])
        for m in (n, n - 3)
    ]
    assert rates[0] > 0.8 - 0.035 and rates[1] < rates[0]
    assert seeds_needed(1.0, 0.0) == 6 == next(m for m in range(2, 99) if smallest_p(m) <= 0.05)
    assert seeds_needed(0.8, 1.0, comparisons=7) > n
    assert seeds_needed(0.01, 1.0) == pytest.approx((1.96 + 0.8416) ** 2 / 0.01**2, rel=0.03)


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


def test_bad_input_is_refused_by_name() -> None:
    with pytest.raises(ArgumentError, match="baseline"):
        compare_paired({"a": {0: 1.0}}, "relu")
    with pytest.raises(ArgumentError, match="finite"):
        compare_paired({"a": {0: math.nan}, "b": {0: 1.0}}, "b")
    with pytest.raises(ArgumentError, match="no seed"):
        compare_paired({"a": {0: 1.0}, "b": {1: 1.0}}, "b")
    with pytest.raises(ArgumentError):
        rank([])
    with pytest.raises(ArgumentError, match="same units"):
        rank([{"a": 1.0, "b": 2.0}, {"a": 1.0, "c": 2.0}])
    with pytest.raises(ArgumentError):
        seeds_needed(0.0, 1.0)


@pytest.mark.parametrize("spread", [0.0, 6.4e-17, 1e-9, 1e-3, 3e-3])
def test_differences_that_are_all_but_equal_need_the_fewest_seeds_there_can_be(
    spread: float,
) -> None:
    fewest = next(n for n in range(2, 99) if smallest_p(n) <= 0.05 / 7)
    assert seeds_needed(0.1, spread, comparisons=7) == fewest


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
