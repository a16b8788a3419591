"""Claims of papers against worked examples whose intervals are known."""

import math

import numpy as np
import pytest
from gatewise_papers.common import (
    ClaimResult,
    Judgement,
    judge_better,
    judge_comparable,
    judge_everywhere,
    judge_trend,
)
from loops import for_each
from scipy import stats

from gatewise.errors import ArgumentError

ZERO = [0.0] * 10


def with_interval(low: float, high: float, *, n: int = 10, alpha: float = 0.05) -> list[float]:
    """Differences whose Student interval at level 1 - alpha is (low, high)."""
    spread = (high - low) / 2 * math.sqrt(n) / stats.t.ppf(1 - alpha / 2, n - 1)
    shape = np.linspace(-1, 1, n)
    return list((low + high) / 2 + spread * shape / shape.std(ddof=1))


def with_spread(mean: float, spread: float, n: int) -> list[float]:
    """Differences with this mean and standard deviation."""
    shape = np.linspace(-1, 1, n)
    return list(mean + spread * shape / shape.std(ddof=1))


def judged(result: ClaimResult) -> str:
    return result.judgement.value


def test_better_is_judged_by_the_interval() -> None:
    swish = judge_better(with_interval(0.16, 0.74), ZERO)
    assert judged(swish) == "supported"
    assert swish.evidence[0].interval == pytest.approx((0.16, 0.74))
    crelu = judge_better(with_spread(2.2, 0.95, 3), [0.0] * 3)
    assert judged(crelu) == "undecided"
    assert crelu.evidence[0].interval == pytest.approx((-0.16, 4.56), abs=0.005)
    assert crelu.detectable == pytest.approx(3.26 * 0.95, rel=2e-3)
    assert judged(judge_better(with_interval(-0.74, -0.16), ZERO)) == "contradicted"
    assert judged(judge_better(with_interval(-0.74, -0.16), ZERO, higher_is_better=False)) == (
        "supported"
    )
    # One of seven comparisons contradicts only at the level divided by seven.
    assert judged(judge_better(with_interval(-0.74, -0.01), ZERO, among=7)) == "undecided"


def test_comparable_needs_a_margin_and_does_not_reward_noise() -> None:
    leaky = judge_comparable(with_interval(-0.19, 0.13, alpha=0.1), ZERO, margin=0.5)
    assert judged(leaky) == "supported"
    deep = judge_comparable(with_spread(-1.0, 0.8, 3), [0.0] * 3, margin=2.0)
    assert judged(deep) == "undecided"
    assert deep.evidence[0].interval == pytest.approx((-2.35, 0.35), abs=0.005)
    assert judged(judge_comparable(with_interval(0.6, 1.2), ZERO, margin=0.5)) == "contradicted"


def test_a_trend_is_the_slope_and_every_step() -> None:
    rates = np.log10([0.003, 0.01, 0.03])
    first = np.full(10, 86.0)

    def levels(steps: list[tuple[float, float]]) -> dict[float, dict[int, float]]:
        values = [first]
        for low, high in steps:
            values.append(values[-1] + with_interval(low, high, alpha=0.1))
        return {
            float(rate): dict(enumerate(map(float, column)))
            for rate, column in zip(rates, values, strict=True)
        }

    swish = levels([(6.45, 7.34), (0.61, 1.16)])
    assert judged(judge_trend(swish)) == "supported"
    relu = levels([(5.0, 6.2), (-0.96, -0.02)])
    assert judged(judge_trend(relu)) == "undecided"
    assert judged(judge_trend(relu, monotone=False)) == "supported"
    falling = levels([(5.0, 6.2), (-3.0, -2.0)])
    assert judged(judge_trend(falling)) == "contradicted"
    down = {place: {seed: -value for seed, value in runs.items()} for place, runs in swish.items()}
    assert judged(judge_trend(down)) == "contradicted"
    assert judged(judge_trend(down, rises=False)) == "supported"


def test_all_must_pass_and_one_that_fails_contradicts() -> None:
    good = with_interval(0.1, 0.5)
    bad = with_interval(-0.5, -0.01)
    everywhere = [judge_better(good, ZERO), judge_better(good, ZERO)]
    assert judged(judge_everywhere(everywhere)) == "supported"
    assert judged(judge_everywhere([*everywhere, judge_better(bad, ZERO)])) == "contradicted"
    assert judged(judge_everywhere([*everywhere, judge_better(good[:2], ZERO)])) == "not tested"


def test_a_claim_is_not_tested_without_runs_on_both_sides() -> None:
    for ours in ([1.0, 2.0], [], [None] * 10, [math.nan] * 10, {"other": 1.0}):
        result = judge_better(ours, ZERO)
        assert result.judgement is Judgement.NOT_TESTED and result.reason
    diverged = with_interval(0.16, 0.74)
    diverged[0] = diverged[1] = math.nan
    base = list(np.linspace(-5, 5, 10))
    shifted = [gap + value for gap, value in zip(diverged, base, strict=True)]
    assert judged(judge_better(shifted, base)) == "undecided"


def test_wrong_arguments_are_refused() -> None:
    for call in (
        lambda: judge_better([1.0], ["x"]),
        lambda: judge_better("abc", ZERO),
        lambda: judge_comparable(ZERO, ZERO, margin=0.0),
        lambda: judge_trend({"x": ZERO, 1.0: ZERO}),
        lambda: judge_everywhere([]),
        lambda: judge_better(ZERO, ZERO, level=0.7),
    ):
        with pytest.raises(ArgumentError):
            call()


def simulate(count: int, judge) -> dict[str, float]:
    values = [judge().judgement.value for _ in range(count)]
    return {name: values.count(name) / count for name in set(values)}


@for_each("n", [3, 10])
def test_claims_with_nothing_behind_them_are_rarely_supported(n: int, full: bool) -> None:
    """The bounds are 3.9 standard errors of a share above the nominal rate."""
    random = np.random.default_rng(n)
    count = 4000 if full else 300
    bound = 0.025 + 3.9 * math.sqrt(0.025 * 0.975 / count)

    def draw(shift: float = 0.0) -> list[float]:
        return list(random.standard_normal(n) + shift)

    equal = simulate(count, lambda: judge_better(draw(), draw()))
    assert equal.get("supported", 0) <= bound and equal.get("contradicted", 0) <= bound
    # A gap as large as the margin is called comparable in at most 5 %.
    wide = 0.05 + 3.9 * math.sqrt(0.05 * 0.95 / count)
    gap = simulate(count, lambda: judge_comparable(draw(1.0), draw(), margin=1.0))
    assert gap.get("supported", 0) <= wide
    flat = simulate(
        count // 4, lambda: judge_trend({float(x): dict(enumerate(draw())) for x in range(5)})
    )
    assert flat.get("supported", 0) <= 0.025
    limit = 0.05 + 3.9 * math.sqrt(0.05 * 0.95 / (count // 4))
    assert flat.get("contradicted", 0) <= limit + 0.025
