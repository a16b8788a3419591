"""The exact sign-flip test against enumeration."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from scipy import stats

from gatewise.errors import ArgumentError
from gatewise.stats import permutation_p

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("n", [2, 3, 5, 8, 10])
def test_the_permutation_test_counts_every_flip_of_signs(n: int) -> None:
    gap = RANDOM.normal(0.4, 1, n)
    means = [abs(np.mean(np.array(signs) * gap)) for signs in itertools.product((1, -1), repeat=n)]
    want = np.mean(np.array(means) >= abs(gap.mean()) * (1 - 1e-12))
    assert permutation_p(gap) == pytest.approx(want)


def test_sums_that_are_equal_but_for_rounding_count_as_equal() -> None:
    """Accuracies are counts over the size of the test set, so flips often tie.

    Whole numbers say how many do.
    """
    for seed in range(20):
        right = np.random.default_rng(seed).integers(1380, 1400, (2, 10))
        gap = right[0] - right[1]
        sums = [abs(int(np.dot(signs, gap))) for signs in itertools.product((1, -1), repeat=10)]
        want = float(np.mean([each >= abs(int(gap.sum())) for each in sums]))
        assert permutation_p(right[0] / 1497 - right[1] / 1497) == want, seed


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


def enumerated(gaps: np.ndarray) -> float:
    """The share of all sign patterns, listed one by one."""
    patterns = 1 - 2 * ((np.arange(2 ** len(gaps))[:, None] >> np.arange(len(gaps))) & 1)
    sums = np.abs(patterns @ gaps)
    return float((sums >= abs(gaps.sum()) - 1e-9 * np.abs(gaps).sum()).mean())


def test_every_way_to_count_gives_what_enumeration_gives() -> None:
    random = np.random.default_rng(1)
    for trial in range(600):
        n = int(random.integers(1, 13))
        gaps = random.standard_normal(n) + 0.5
        if trial % 3 == 1:
            gaps = random.integers(-4, 7, n) / 360
        elif trial % 3 == 2:
            gaps = np.round(gaps, 1)
        assert permutation_p(gaps) == enumerated(gaps), gaps
        assert permutation_p(1e-200 * gaps) == permutation_p(1e200 * gaps) == enumerated(gaps)


def test_forty_pairs_are_exact_and_a_thousand_take_little_memory() -> None:
    random = np.random.default_rng(2)
    gaps = random.standard_normal(40) + 0.3
    counted = np.round(gaps, 3)
    # The same differences by halves and by the exact distribution of whole thousandths.
    assert permutation_p(counted + 1e-7 * np.pi * gaps) == pytest.approx(
        permutation_p(counted), rel=1e-2
    )
    many = random.standard_normal(1000) + 0.06
    tracemalloc.start()
    by_drawing = permutation_p(many)
    whole = permutation_p(np.rint(many * 100) / 1497)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6
    t_test = stats.ttest_1samp(many, 0).pvalue
    assert by_drawing == pytest.approx(t_test, abs=0.006)
    assert whole == pytest.approx(t_test, abs=0.006)


@pytest.mark.parametrize("n", [30, 60, 200])
def test_memory_is_bounded_for_steps_of_a_large_test_set(n: int) -> None:
    """Whole multiples of a millionth: the distribution of their sum would take 400 MB."""
    steps = RANDOM.integers(-900_000, 900_000, n).astype(float)
    steps[0] = 50
    tracemalloc.start()
    try:
        p = permutation_p(steps / 1e6)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 40e6
    normal = 2 * stats.norm.sf(abs(steps.sum()) / math.sqrt((steps**2).sum()))
    assert p == pytest.approx(normal, abs=0.02)


def test_all_differences_of_one_sign_give_the_smallest_p() -> None:
    for n in range(2, 41, 3):
        assert permutation_p(RANDOM.uniform(1, 2, n)) == 2.0 ** (1 - n)


def test_differences_that_are_no_numbers_are_refused() -> None:
    for wrong in (["x"], [math.nan], [[1.0, 2.0]], None, 3.0, [10**400]):
        with pytest.raises(ArgumentError, match="permutation_p"):
            permutation_p(wrong)
