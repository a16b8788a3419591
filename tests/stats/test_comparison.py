"""Verdicts, intervals and p-values of compare_runs."""

import math

import numpy as np
import pytest
from scipy import stats

from gatewise.errors import ArgumentError
from gatewise.stats import (
    Comparison,
    compare_runs,
    detectable_difference,
    permutation_p,
    plan_seeds,
    safe_spread,
    seeds_needed,
)
from gatewise.stats.comparison import decide, make_rules
from gatewise.stats.estimates import Estimate, t_quantile


def by_seed(values) -> dict[int, float]:
    return {seed: float(value) for seed, value in enumerate(values)}


def random_results(random: np.random.Generator) -> dict[str, dict[int, float]]:
    """Results of any shape: whole images or not, missing, unpaired, diverged or equal runs."""
    seeds = int(random.integers(1, 15))
    results = {}
    base = random.normal(0, random.choice([0.0, 0.01, 1.0]), seeds)
    for name in "abcdefgh"[: random.integers(2, 9)]:
        values = base + random.normal(random.normal(0, 1), random.choice([0.0, 0.1, 1.0]), seeds)
        if random.random() < 0.3:
            values = np.round(values * 360) / 360
        if random.random() < 0.2:
            values[random.random(seeds) < 0.3] = random.choice([math.nan, math.inf, -math.inf])
        shift = random.choice([0, 0, 0, 3, 100])
        kept = random.random(seeds) < random.choice([1.0, 1.0, 0.6])
        results[name] = {
            seed + shift: float(value)
            for seed, value in enumerate(values)
            if kept[seed] or name == "a"
        }
    return results


def check_consistency(comparison: Comparison) -> None:
    for row in comparison.differences:
        low, high = row.interval
        decided = row.verdict in ("better", "worse")
        outside = low > 0 or high < 0
        assert decided == outside == (row.p_corrected <= comparison.level), row
        assert row.confidence == 1 - comparison.level / comparison.comparisons
        if decided:
            assert (row.verdict == "better") == ((low > 0) == comparison.higher_is_better)
        if row.verdict == "equivalent":
            assert comparison.margin is not None
            assert -comparison.margin < low <= 0 <= high < comparison.margin
        if math.isfinite(low):
            assert low <= row.difference <= high
            assert row.interval_alone[0] >= low and row.interval_alone[1] <= high
        elif row.verdict == "undecided":
            assert row.reason


def test_verdict_interval_and_corrected_p_never_contradict_each_other() -> None:
    random = np.random.default_rng(1)
    verdicts = set()
    for _ in range(400):
        comparison = compare_runs(
            random_results(random),
            "a",
            level=float(random.choice([0.05, 0.01, 0.3])),
            higher_is_better=bool(random.random() < 0.5),
            margin=random.choice([None, 0.5, 3.0]),
            comparisons=random.choice([None, 28]),
            resolution=float(random.choice([0.0, 1 / 360])),
            paired=random.choice([None, None, False, True]),
        )
        check_consistency(comparison)
        verdicts.update((row.verdict, row.method) for row in comparison.differences)
    methods = {"paired t", "Welch's t", "partially overlapping t"}
    assert verdicts == {
        (verdict, method)
        for verdict in ("better", "worse", "equivalent", "undecided")
        for method in methods
    }


@pytest.mark.parametrize("n", [3, 5, 10, 20])
def test_the_interval_and_p_are_those_of_scipys_paired_t(n: int) -> None:
    random = np.random.default_rng(n)
    ours = random.normal(0.5, 1, n)
    theirs = random.normal(0, 1, n)
    results = {"relu": by_seed(theirs), "gelu": by_seed(ours), "silu": by_seed(ours + 0.1)}
    row = compare_runs(results, "relu")["gelu"]
    test = stats.ttest_rel(ours, theirs)
    interval = test.confidence_interval(1 - 0.05 / 2)
    assert row.p == pytest.approx(test.pvalue)
    assert row.p_corrected == pytest.approx(min(1, 2 * test.pvalue))
    assert row.interval == pytest.approx((interval.low, interval.high))
    assert row.interval_alone == pytest.approx(tuple(test.confidence_interval(0.95)))
    assert row.p_exact == permutation_p(ours - theirs)
    assert (row.n, row.method, row.difference) == (
        n,
        "paired t",
        pytest.approx(np.mean(ours - theirs)),
    )


def test_equal_differences_decide_only_by_the_resolution_or_by_their_signs() -> None:
    """Three equal differences have no spread, which says nothing about the noise."""
    base = by_seed(np.arange(3) / 4)
    shifted = {seed: value + 1 / 4 for seed, value in base.items()}
    results = {"relu": base, "gelu": shifted}
    few = compare_runs(results, "relu")["gelu"]
    assert few.verdict == "undecided" and few.reason == "the differences do not vary"
    with_step = compare_runs(results, "relu", resolution=1 / 4)["gelu"]
    assert with_step.verdict == "undecided" and with_step.interval[0] < 0 < with_step.interval[1]
    fine = compare_runs(results, "relu", resolution=1 / 1000)["gelu"]
    assert fine.verdict == "better"
    base = by_seed(np.arange(10) / 4)
    shifted = {seed: value + 1 / 4 for seed, value in base.items()}
    many = compare_runs({"relu": base, "gelu": shifted}, "relu")["gelu"]
    assert many.verdict == "better" and many.p == many.p_exact == 2**-9


def test_a_difference_within_the_margin_is_still_better() -> None:
    values = np.linspace(0, 1, 12)
    noise = np.tile([0.01, -0.01], 6)
    results = {"relu": by_seed(values), "gelu": by_seed(values + 0.1 + noise)}
    row = compare_runs(results, "relu", margin=0.5)["gelu"]
    assert row.verdict == "better" and row.interval[1] < 0.5
    equal = {"relu": by_seed(values), "gelu": by_seed(values + noise)}
    assert compare_runs(equal, "relu", margin=0.5)["gelu"].verdict == "equivalent"
    assert compare_runs(equal, "relu")["gelu"].verdict == "undecided"


def test_a_diverged_run_counts_as_the_worst_value_and_as_missing() -> None:
    random = np.random.default_rng(0)
    base = random.normal(0.9, 0.01, 10)
    ours = base + 0.01 + random.normal(0, 0.004, 10)
    results = {"relu": by_seed(base), "gelu": by_seed(ours)}
    assert compare_runs(results, "relu")["gelu"].verdict == "better"
    for diverged in (math.nan, math.inf, -math.inf, 1e300):
        ours[:2] = diverged
        results["gelu"] = by_seed(ours)
        row = compare_runs(results, "relu")["gelu"]
        assert (row.verdict, row.diverged, row.n) == ("undecided", 2, 8)
        assert row.reason == "depends on what a diverged run is worth"
        # A far better method stays better with the two runs at the worst value.
        results["gelu"] = by_seed(ours + 0.5)
        assert compare_runs(results, "relu")["gelu"].verdict == "better"
    results["gelu"] = by_seed([math.nan] * 10)
    row = compare_runs(results, "relu")["gelu"]
    assert (row.verdict, row.reason) == ("undecided", "every run diverged")


def test_runs_without_common_seeds_are_tested_by_welch() -> None:
    random = np.random.default_rng(4)
    ours = random.normal(1, 2, 9)
    theirs = random.normal(0, 1, 6)
    results = {
        "relu": by_seed(theirs),
        "gelu": {f"run {place}": float(value) for place, value in enumerate(ours)},
    }
    test = stats.ttest_ind(ours, theirs, equal_var=False)
    row = compare_runs(results, "relu")["gelu"]
    assert row.method == "Welch's t" and row.p == pytest.approx(test.pvalue)
    assert row.interval == pytest.approx(tuple(test.confidence_interval(0.95)))
    assert math.isnan(row.p_exact)
    paired = {"relu": by_seed(theirs), "gelu": by_seed(ours[:6])}
    assert compare_runs(paired, "relu", paired=False)["gelu"].method == "Welch's t"


def test_partially_overlapping_runs_give_the_published_example() -> None:
    """The example of the R package of Derrick et al., computed by their formulas."""
    a_alone = [20, 21, 16, 18, 14, 12, 14, 17]
    a_paired = [14, 15, 18, 20, 11, 19, 14, 15]
    b_alone = [10, 16, 18, 16, 15, 14, 13, 10]
    b_paired = [15, 10, 15, 17, 13, 19, 12, 13]
    a = {f"a{place}": float(value) for place, value in enumerate(a_alone)}
    b = {f"b{place}": float(value) for place, value in enumerate(b_alone)}
    a |= {place: float(value) for place, value in enumerate(a_paired)}
    b |= {place: float(value) for place, value in enumerate(b_paired)}
    row = compare_runs({"b": b, "a": a}, "b")["a"]
    x = np.array(a_alone + a_paired)
    y = np.array(b_alone + b_paired)
    r = np.corrcoef(a_paired, b_paired)[0, 1]
    parts = x.var(ddof=1) / 16, y.var(ddof=1) / 16
    error = math.sqrt(sum(parts) - 2 * r * x.std(ddof=1) * y.std(ddof=1) * 8 / 256)
    welch = sum(parts) ** 2 / (parts[0] ** 2 / 15 + parts[1] ** 2 / 15)
    freedom = 7 + (welch - 7) / 32 * 16
    p = 2 * stats.t.sf(abs(x.mean() - y.mean()) / error, freedom)
    assert row.method == "partially overlapping t" and row.p == pytest.approx(p)
    assert round(row.p, 3) == 0.026  # as printed for equal variances, which these nearly are


def test_complete_pairs_are_used_if_they_are_most_runs() -> None:
    random = np.random.default_rng(5)
    base = by_seed(random.normal(size=10))
    ours = {seed: value + 0.1 * random.normal() for seed, value in list(base.items())[:7]}
    row = compare_runs({"relu": base, "gelu": ours}, "relu")["gelu"]
    assert (row.method, row.n) == ("paired t", 7)
    del ours[6]
    assert compare_runs({"relu": base, "gelu": ours}, "relu")["gelu"].method != "paired t"


# STATISTICS of the docs: smallest detectable difference in spreads, and the seeds needed.
DETECTABLE = {
    3: (3.26, 8.66),
    5: (1.68, 2.87),
    6: (1.43, 2.27),
    8: (1.16, 1.70),
    10: (1.00, 1.41),
    15: (0.78, 1.05),
    20: (0.66, 0.87),
    30: (0.53, 0.69),
    50: (0.40, 0.52),
}
NEEDED = {
    2.0: (5, 7, 8),
    1.5: (6, 10, 11),
    1.0: (10, 17, 19),
    0.75: (16, 26, 30),
    0.5: (34, 54, 61),
    0.3: (90, 143, 161),
    0.2: (199, 316, 357),
}


def test_detectable_differences_and_seeds_are_those_of_the_noncentral_t() -> None:
    for n, sizes in DETECTABLE.items():
        for comparisons, size in zip((1, 7), sizes, strict=True):
            got = detectable_difference(2.0, n, comparisons=comparisons)
            assert got / 2 == pytest.approx(size, abs=0.0051)
            critical = stats.t.ppf(1 - 0.025 / comparisons, n - 1)
            assert stats.nct.sf(critical, n - 1, got / 2 * math.sqrt(n)) == pytest.approx(
                0.8, abs=1e-6
            )
    for effect, seeds in NEEDED.items():
        for comparisons, n in zip((1, 7, 14), seeds, strict=True):
            assert seeds_needed(effect, 1.0, comparisons=comparisons) == n
    assert seeds_needed(1.0, 0.0) == 3
    assert safe_spread(1.0, 5) == pytest.approx(1.56, abs=0.005)
    assert safe_spread(1.0, 10) == pytest.approx(1.29, abs=0.005)
    assert plan_seeds(1.0, 1.0, 10, comparisons=7) == (17, 25)
    assert plan_seeds(1e-9, 1.0, 10) is None


def two_way_by_hand(table: np.ndarray) -> tuple[float, float]:
    """Mean squares of a two-way layout, as in a text book."""
    n, m = table.shape
    seeds = m * ((table.mean(1) - table.mean()) ** 2).sum() / (n - 1)
    examples = n * ((table.mean(0) - table.mean()) ** 2).sum() / (m - 1)
    rest = table - table.mean(1, keepdims=True) - table.mean(0) + table.mean()
    single = (rest**2).sum() / ((n - 1) * (m - 1))
    total = max(seeds + examples - single, seeds, examples) / (n * m)
    parts = np.array([seeds, examples, single]) / (n * m)
    freedom = total**2 / (parts**2 / [n - 1, m - 1, (n - 1) * (m - 1)]).sum()
    return math.sqrt(total), max(n - 1, freedom)


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_the_verdict_for_new_examples_uses_seeds_and_examples(scale: float) -> None:
    random = np.random.default_rng(6)
    easy = random.random(500)
    correct = {
        name: {seed: random.random(500) < easy + gain for seed in range(12)}
        for name, gain in (("relu", 0.0), ("gelu", 0.1), ("silu", 0.01))
    }
    results = {
        name: {seed: scale * float(right.mean()) for seed, right in by.items()}
        for name, by in correct.items()
    }
    comparison = compare_runs(results, "relu", correct=correct, resolution=scale / 500)
    row = comparison["gelu"]
    table = scale * (
        np.array([correct["gelu"][seed] for seed in range(12)], dtype=float)
        - np.array([correct["relu"][seed] for seed in range(12)], dtype=float)
    )
    error, freedom = two_way_by_hand(table)
    half = stats.t.ppf(1 - 0.025 / 2, freedom) * error
    assert row.new_examples.interval == pytest.approx(
        (row.difference - half, row.difference + half)
    )
    assert row.verdict == row.new_examples.verdict == "better"
    assert comparison["silu"].new_examples.verdict == "undecided"
    wrong = {name: {s: scale - v for s, v in by.items()} for name, by in results.items()}
    error_rate = compare_runs(wrong, "relu", correct=correct, higher_is_better=False)["gelu"]
    assert error_rate.new_examples.verdict == "better"
    assert error_rate.new_examples.interval[1] == pytest.approx(-row.new_examples.interval[0])
    other = {name: {s: v + 0.01 for s, v in by.items()} for name, by in results.items()}
    assert compare_runs(other, "relu", correct=correct)["gelu"].new_examples is None


def test_bad_input_is_refused_by_name() -> None:
    with pytest.raises(ArgumentError, match="baseline"):
        compare_runs({"a": {0: 1.0}}, "relu")
    with pytest.raises(ArgumentError, match="seed 3: the value is not a number"):
        compare_runs({"a": {3: "x"}, "b": {3: 1.0}}, "b")
    with pytest.raises(ArgumentError, match="margin"):
        compare_runs({"a": {0: 1.0}}, "a", margin=-1.0)
    with pytest.raises(ArgumentError, match="no such method"):
        compare_runs({"a": {0: 1.0}}, "a")["b"]
    with pytest.raises(ArgumentError, match="effect"):
        seeds_needed(0.0, 1.0)


def test_rounding_at_the_very_end_of_an_interval_contradicts_nothing() -> None:
    """Differences as large as half the width of their interval, and a few last bits beside."""
    for freedom in range(2, 40):
        for comparisons in (1, 3, 7, 28):
            rules = make_rules(1, 0.05, True, None, comparisons, 0.0, None)
            half = t_quantile(rules.alpha / 2, freedom) * 0.37
            for bits in range(-4, 5):
                gap = half + bits * math.ulp(half)
                edge = Estimate(gap, 0.37, freedom, 1.0, freedom + 1, "paired t")
                decision = decide([edge], rules)
                outside = decision.interval[0] > 0
                assert decision.decided == outside == (decision.p_corrected <= 0.05)
