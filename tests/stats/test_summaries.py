"""Trends, summaries and corrections against other computations."""

import math

import numpy as np
import pytest
from scipy import stats

from gatewise.stats import (
    finite,
    half_width,
    holm,
    mean,
    standard_deviation,
)

RANDOM = np.random.default_rng(0)


def test_holms_correction_keeps_the_order_and_is_never_below_bonferroni_for_the_smallest() -> None:
    p = [0.01, 0.04, 0.03, 0.005]
    assert holm(p) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_summaries_are_those_of_numpy_and_leave_out_what_is_missing() -> None:
    values = RANDOM.normal(size=7).tolist()
    assert mean(values) == pytest.approx(np.mean(values), rel=1e-14)
    assert standard_deviation(values) == pytest.approx(np.std(values, ddof=1), rel=1e-14)
    assert math.isnan(mean([])) and standard_deviation([2.0]) == 0.0
    assert finite([1, None, math.nan, -math.inf, 2.5]) == [1.0, 2.5]
    low, high = stats.t.interval(0.999, 6, np.mean(values), stats.sem(values))
    assert half_width(values) == pytest.approx((high - low) / 2)
