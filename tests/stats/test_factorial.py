"""The factorial rule: in simulated worlds, against a plain implementation, and its edges."""

import math
from dataclasses import replace

import numpy as np
import pytest
from factorial_worlds import BROKEN, CHOSEN_IN, OTHERS, World, false_verdicts, found_gaps
from scipy import stats as scipy_stats

from gatewise.errors import ArgumentError
from gatewise.stats import compare_runs
from gatewise.stats.factorial import (
    FactorialRuns,
    Progress,
    factorial_progress,
    grid_steps,
    judge_factorial,
    judge_single_rates,
    planned_steps,
)

WORLDS = {world.name: world for world in (*CHOSEN_IN, *OTHERS, *BROKEN)}
# The chance that a right program fails one of the simulated worlds.
CHANCE = 1e-3


def most(percent: float, studies: int) -> float:
    """The largest share, in percent, that is seen by chance if ``percent`` is true."""
    return 100 * float(scipy_stats.binom.ppf(1 - CHANCE, studies, percent / 100)) / studies


def least(percent: float, studies: int) -> float:
    return 100 * float(scipy_stats.binom.ppf(CHANCE, studies, percent / 100)) / studies


def check_false_verdicts(studies: int, seed: int) -> None:
    for name, world in WORLDS.items():
        found = false_verdicts(world, studies, np.random.default_rng(seed))
        assert found <= most(world.false, studies), name


def check_found_gaps(studies: int, seed: int) -> None:
    for name, world in WORLDS.items():
        if world.found is not None:
            # The units of one study share a baseline, so that only studies are independent.
            found = found_gaps(world, studies, np.random.default_rng(seed))
            assert found >= least(world.found, studies), name


def test_false_verdicts_are_as_rare_as_the_docs_say() -> None:
    check_false_verdicts(300, 36)


@pytest.mark.slow
def test_false_verdicts_are_as_rare_as_the_docs_say_in_2000_studies() -> None:
    check_false_verdicts(2000, 37)


def test_gaps_of_two_standard_deviations_are_found() -> None:
    check_found_gaps(100, 38)


@pytest.mark.slow
def test_gaps_of_two_standard_deviations_are_found_in_1000_studies() -> None:
    check_found_gaps(1000, 39)


def test_a_rule_without_the_best_rate_tried_would_fail_these_worlds() -> None:
    """The simulation can tell a worse rule: fitted peaks alone, unlike shapes."""
    rng = np.random.default_rng(40)
    runs = WORLDS["plateau against parabola"].draw(300, rng)
    verdicts = judge_factorial(runs, factorial_progress(runs))
    alone = 100 * (verdicts.peak_side != 0).any(-1).mean()
    assert alone > most(WORLDS["plateau against parabola"].false, 300)


# ------------------------------------------------------- one study, step by step, in plain Python


class PlainStudy:
    """The rule for one study as STATISTICS states it, with dictionaries and ``numpy.polyfit``."""

    def __init__(self, runs: FactorialRuns) -> None:
        self.steps = [int(step) for step in grid_steps(runs.count)]
        units, _, self.seeds = runs.values.shape[1:]
        self.units = range(units)
        self.floor = runs.floor
        self.chance = runs.chance
        self.value = {}
        for u in self.units:
            for index, step in enumerate(self.steps):
                self.value[u, step] = [float(v) for v in runs.values[0, u, index]]
        self.grid = [int(step) for step in planned_steps(runs.count)]
        self.width = 2

    def worth(self, cells: list[float]) -> float:
        if self.chance is not None:
            return self.chance
        return min(value for value in cells if math.isfinite(value))

    def counted(self, u: int, step: int, seeds: int, worth: float, both: str) -> list[float]:
        values = self.value[u, step][:seeds]
        left = [value for value in values if math.isfinite(value)]
        instead = sum(left) / len(left) if both == "without" and left else worth
        return [value if math.isfinite(value) else instead for value in values]

    def used(self, kept: dict[int, list[int]]) -> list[float]:
        cells = []
        for u in self.units:
            for step in self.grid:
                cells += self.value[u, step][: self.seeds if step in kept[u] else 3]
        return cells

    def noise(self, curves: dict[int, dict[int, list[float]]]) -> float:
        spreads = []
        for curve in curves.values():
            spreads.append(max((np.mean(v), np.std(v, ddof=1)) for v in curve.values())[1])
        return max(float(np.median(spreads)), self.floor)

    def race(self) -> dict[int, list[int]]:
        first = [v for u in self.units for step in self.grid for v in self.value[u, step][:3]]
        worth = self.worth(first)
        curves = {
            u: {step: self.counted(u, step, 3, worth, "without") for step in self.grid}
            for u in self.units
        }
        s = self.noise(curves)
        kept = {}
        for u, curve in curves.items():
            means = {step: np.mean(values) for step, values in curve.items()}
            best = max(means, key=lambda step: means[step])
            at = min(max(self.grid.index(best), 1), len(self.grid) - 2)
            near = self.grid[at - 1 : at + 2]
            top = means[best]
            kept[u] = [step for step in self.grid if means[step] >= top - 20 * s or step in near]
        return kept

    def ends(self, kept: dict[int, list[int]]) -> tuple[bool, bool, set[int], set[int]]:
        """Whether to widen below and above, the units at an edge, and those with few rates."""
        worth = self.worth(self.used(kept))
        curves = {
            u: {step: self.counted(u, step, self.seeds, worth, "without") for step in kept[u]}
            for u in self.units
        }
        s = self.noise(curves)
        lowest, highest = self.grid[0], self.grid[-1]
        low, high, edge, few = False, False, set(), set()
        for u, curve in curves.items():
            means = {step: np.mean(values) for step, values in curve.items()}
            best = max(means, key=lambda step: means[step])
            clear = True
            for step, values in curve.items():
                if step in (lowest, highest):
                    continue
                gaps = np.subtract(curve[best], values)
                error = max(np.std(gaps, ddof=1), self.floor) / math.sqrt(len(gaps))
                clear = clear and gaps.mean() > 2 * error
            count = [step for step, mean in means.items() if mean >= means[best] - 12 * s]
            if len(count) < 3:
                few.add(u)
            at_low = (best == lowest and clear) or (u in few and lowest in count)
            at_high = (best == highest and clear) or (u in few and highest in count)
            if at_low or at_high:
                edge.add(u)
            low, high = low or at_low, high or at_high
        return low, high, edge, few

    def numbers(self, kept: dict[int, list[int]], both: str) -> dict[int, tuple[list, list]]:
        """Per unit one number a seed, at the fitted peak and at the best rate tried."""
        worth = self.worth(self.used(kept))
        curves = {
            u: {step: self.counted(u, step, self.seeds, worth, both) for step in kept[u]}
            for u in self.units
        }
        h = 4 * self.noise(curves)
        numbers = {}
        for u, curve in curves.items():
            steps = np.array(kept[u])
            runs = np.array([curve[step] for step in kept[u]])
            means = runs.mean(1)
            best = steps[int(means.argmax())]
            w = np.exp(-(((means.max() - means) / h) ** 2) / 2)
            r = steps / self.width
            centre = (r * w).sum() / w.sum()
            w = w * np.exp(-(((r - centre) / 1.2) ** 2) / 2)
            w = w / w.max() + 1e-9  # decides where all but two rates are hopeless
            x = (steps - best) / self.width
            a, b, _ = np.polyfit(x, means, 2, w=np.sqrt(w))
            place = -b / (2 * a) if a < 0 else 0.0
            place = min(max(place, -1.0, x.min()), 1.0, x.max())
            at_peak = [np.polyval(np.polyfit(x, seed, 2, w=np.sqrt(w)), place) for seed in runs.T]
            numbers[u] = at_peak, list(curve[best])
        return numbers

    def judge(self) -> tuple[list[int], list[tuple[float, float]], list[float]]:
        kept = self.race()
        for _ in range(2):
            low, high, _, _ = self.ends(kept)
            if low:
                self.grid.insert(0, self.grid[0] - 2)
            if high:
                self.grid.append(self.grid[-1] + 2)
            kept = self.race()
        _, _, edge, few = self.ends(kept)
        if few:
            self.grid = list(range(self.grid[0], self.grid[-1] + 1))
            self.width = 1
            kept = self.race()
            _, _, edge, few = self.ends(kept)
        bad = edge | few
        level = 0.05 / (len(self.units) - 1)
        critical = scipy_stats.t.ppf(1 - level / 2, self.seeds - 1)
        tests = [self.numbers(kept, both) for both in ("worst", "without")]
        sides, intervals, differences = [], [], []
        for u in self.units[1:]:
            lows, highs, means = [], [], []
            for numbers in tests:
                for ours, theirs in zip(numbers[u], numbers[0], strict=True):
                    gaps = np.subtract(ours, theirs)
                    error = max(np.std(gaps, ddof=1), self.floor) / math.sqrt(self.seeds)
                    lows.append(gaps.mean() - critical * error)
                    highs.append(gaps.mean() + critical * error)
                    means.append(gaps.mean())
            side = 1 if min(lows) > 0 else -1 if max(highs) < 0 else 0
            sides.append(0 if {0, u} & bad else side)
            intervals.append((min(lows), max(highs)))
            differences.append(means[0])
        self.kept = kept
        return sides, intervals, differences


PARABOLA = WORLDS["parabola"].shape
EQUALITY = [
    World("parabola", PARABOLA, spread=2),
    WORLDS["asymmetric, sd .05"],
    WORLDS["parabola, tops 3 steps off"],
    WORLDS["cliff of 5, sd .15"],
    WORLDS["falls .3 to 4, sd .05"],
    WORLDS["5 seeds, asymmetric, sd .1"],
    WORLDS["5 % of all runs collapse"],
    WORLDS["all runs above the best rate diverge"],
]


def test_the_rule_equals_a_plain_implementation() -> None:
    for world in EQUALITY:
        for chance in (-60.0, None):
            check_against_plain_implementation(world, chance)


def check_against_plain_implementation(world: World, chance: float | None) -> None:
    rng = np.random.default_rng(41)
    runs = replace(world.draw(6, rng, gap=world.gap), chance=chance)
    state = factorial_progress(runs)
    verdicts = judge_factorial(runs, state)
    for study in range(len(runs.values)):
        plain = PlainStudy(one_study(runs, study))
        sides, intervals, differences = plain.judge()
        assert [plain.steps[i] for i in np.flatnonzero(state.rates[study])] == plain.grid
        for unit, kept in plain.kept.items():
            assert [plain.steps[i] for i in np.flatnonzero(state.kept[study, unit])] == kept
        assert verdicts.side[study].tolist() == sides
        ends = np.stack([verdicts.low[study], verdicts.high[study]], -1)
        # Weights down to 1e-9 leave the normal equations 7 of 16 digits.
        np.testing.assert_allclose(ends, intervals, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(verdicts.difference[study], differences, rtol=1e-6, atol=1e-6)


def one_study(runs: FactorialRuns, study: int) -> FactorialRuns:
    part = slice(study, study + 1)
    return replace(
        runs, values=runs.values[part], diverged=runs.diverged[part], lost=runs.lost[part]
    )


# ------------------------------------------------------------------------- what is still asked for


@pytest.mark.parametrize(
    "name",
    [
        "parabola, tops 3 steps off",
        "asymmetric, sd .05",
        "cliffs on both sides",
        "5 % of all runs collapse",
    ],
)
def test_the_order_in_which_runs_finish_changes_nothing(name: str) -> None:
    rng = np.random.default_rng(42)
    world = WORLDS[name]
    all_runs = world.draw(2, rng)
    expected = factorial_progress(all_runs)
    for study in range(2):
        whole = one_study(all_runs, study)
        done = np.zeros(whole.values.shape, bool)
        while not (state := factorial_progress(only(whole, done))).ended.all():
            asked = np.argwhere(state.asked)
            assert len(asked) and not (state.asked & done).any()
            for cell in rng.permutation(asked)[: 1 + len(asked) // 2]:
                done[tuple(cell)] = True
        assert (state.rates[0] == expected.rates[study]).all()
        assert (state.kept[0] == expected.kept[study]).all()
        first = judge_factorial(only(whole, done), state)
        second = judge_factorial(whole, factorial_progress(whole))
        np.testing.assert_array_equal(first.low, second.low)
        np.testing.assert_array_equal(first.side, second.side)


def only(runs: FactorialRuns, done: np.ndarray) -> FactorialRuns:
    return replace(runs, values=np.where(done, runs.values, np.nan), diverged=runs.diverged & done)


def test_the_first_three_seeds_are_asked_for_first() -> None:
    runs = FactorialRuns.of(np.full((1, 3, 17, 8), np.nan), 5)
    state = factorial_progress(runs)
    cells = np.argwhere(state.asked[0])
    assert len(cells) == 3 * 5 * 3 and set(cells[:, 2]) == {0, 1, 2}
    assert set(grid_steps(5)[cells[:, 1]]) == {-4, -2, 0, 2, 4}
    assert not state.ended[0]


def study_of(
    curves: list[list[float]], noise: float = 0.1, seeds: int = 8, seed: int = 0
) -> np.ndarray:
    """Runs of one study whose curves are given at the whole steps of the full grid."""
    heights = np.array(curves, float)
    fine = np.arange(17) / 2
    means = np.stack([np.interp(fine, np.arange(9), row) for row in heights])
    rng = np.random.default_rng(seed)
    return (means[..., None] + noise * rng.standard_normal((*means.shape, seeds)))[None]


PEAKED = [0.0, 1.0, 2.0, 2.6, 2.8, 2.6, 2.0, 1.0, 0.0]


def test_racing_drops_a_rate_far_below_the_best_but_not_its_neighbours() -> None:
    steep = [-90.0, -90.0, -90.0, -20.0, 2.8, -20.0, -30.0, -90.0, -90.0]
    runs = FactorialRuns.of(study_of([PEAKED, steep]), 5)
    steps = grid_steps(5)
    three = np.where(np.arange(8) < 3, runs.values, np.nan)
    state = factorial_progress(replace(runs, values=three))
    assert set(steps[state.kept[0, 0]]) == {-4, -2, 0, 2, 4}
    assert set(steps[state.kept[0, 1]]) == {-2, 0, 2}
    assert set(np.argwhere(state.asked[0])[:, 2]) == {3, 4, 5, 6, 7}


def rising(top: int) -> list[float]:
    return [-((place - top) ** 2) / 2 for place in range(9)]


@pytest.mark.parametrize(("top", "steps"), [(6, (-4, 6)), (7, (-4, 8)), (8, (-4, 8))])
def test_a_clear_edge_is_widened_at_most_twice_for_every_unit(
    top: int, steps: tuple[int, int]
) -> None:
    runs = FactorialRuns.of(study_of([rising(4), rising(4), rising(top)]), 5)
    state = factorial_progress(runs)
    run = grid_steps(5)[state.rates[0]]
    assert (run.min(), run.max()) == steps
    verdicts = judge_factorial(runs, state)
    assert state.at_edge[0].tolist() == [False, False, top == 8]
    assert verdicts.at_edge[0].tolist() == [False, top == 8]


def test_a_baseline_at_the_edge_leaves_no_row_decided() -> None:
    values = study_of([rising(9), rising(4), rising(4)])
    values[:, 1] += 50
    runs = FactorialRuns.of(values, 5)
    verdicts = judge_factorial(runs, factorial_progress(runs))
    assert (verdicts.low > 0).any() and verdicts.at_edge.all() and not verdicts.side.any()


def test_records_cannot_be_widened() -> None:
    values = study_of([PEAKED, rising(7)])
    away = ~np.isin(grid_steps(5), planned_steps(5))[:, None]
    runs = FactorialRuns.of(np.where(away, np.nan, values), 5)
    assert not factorial_progress(runs).ended[0]
    state = factorial_progress(runs, widen=False)
    assert state.ended[0] and state.at_edge[0].tolist() == [False, True]
    assert judge_factorial(runs, state).side[0].tolist() == [0]


def test_half_way_rates_are_run_where_few_count_and_too_coarse_grids_are_not_decided() -> None:
    steep = [-20.0, -15.0, -10.0, -5.0, 0.0, -5.0, -10.0, -15.0, -20.0]
    state = factorial_progress(FactorialRuns.of(study_of([PEAKED, steep], noise=0.3), 5))
    assert state.stride[0] == 1 and not state.too_coarse.any()
    state = factorial_progress(FactorialRuns.of(study_of([PEAKED, steep], noise=0.01), 5))
    assert state.stride[0] == 1 and state.too_coarse[0].tolist() == [False, True]


# ------------------------------------------------------------------------------------ the verdicts


def random_runs(studies: int = 60, **options: object) -> FactorialRuns:
    world = World("random", PARABOLA, **options)  # type: ignore[arg-type]
    return world.draw(studies, np.random.default_rng(43), gap=0.7)


@pytest.mark.parametrize("collapse", [0.0, 0.03])
def test_p_is_at_most_5_percent_exactly_when_zero_is_outside(collapse: float) -> None:
    runs = random_runs(200, collapse=collapse)
    verdicts = judge_factorial(runs, factorial_progress(runs))
    outside = (verdicts.low > 0) | (verdicts.high < 0)
    assert outside.any() and not outside.all()
    assert ((verdicts.p <= 0.05) == outside).all()
    assert ((verdicts.side != 0) <= outside).all()


def test_a_constant_moves_nothing_and_a_factor_scales() -> None:
    runs = replace(random_runs(), chance=None)
    verdicts = judge_factorial(runs, factorial_progress(runs))
    moved = replace(runs, values=3 * runs.values + 100)
    other = judge_factorial(moved, factorial_progress(moved))
    np.testing.assert_allclose(other.low, 3 * verdicts.low, atol=1e-8)
    np.testing.assert_allclose(other.difference, 3 * verdicts.difference, atol=1e-8)
    assert (other.side == verdicts.side).all()


def test_a_single_rate_is_the_paired_t() -> None:
    rng = np.random.default_rng(44)
    values = rng.standard_normal((1, 3, 1, 8)) + np.array([0, 1.5, 0])[None, :, None, None]
    runs = FactorialRuns.of(values, 1)
    verdicts = judge_factorial(runs, factorial_progress(runs))
    table = {str(unit): dict(enumerate(values[0, unit, 0])) for unit in range(3)}
    for unit, row in enumerate(compare_runs(table, "0").differences):
        assert row.interval == pytest.approx((verdicts.low[0, unit], verdicts.high[0, unit]))
        assert row.p_corrected == pytest.approx(verdicts.p[0, unit])


def test_a_diverged_run_of_a_better_unit_leaves_it_undecided() -> None:
    values = study_of([PEAKED, [height + 2 for height in PEAKED]])
    diverged = np.zeros(values.shape, bool)
    whole = FactorialRuns.of(values, 5)
    assert judge_factorial(whole, factorial_progress(whole)).side[0, 0] == 1
    diverged[0, 1, :, 5] = True
    runs = FactorialRuns.of(values, 5, diverged=diverged, chance=-60.0)
    verdicts = judge_factorial(runs, factorial_progress(runs))
    assert verdicts.side[0, 0] == 0 and verdicts.on_diverged[0, 0]
    assert verdicts.low[0, 0] < 0 < verdicts.high[0, 0]


def test_the_floor_keeps_equal_differences_from_being_a_verdict() -> None:
    values = np.zeros((1, 2, 1, 3))
    values[:, 1] = 0.01
    verdicts = judge_factorial(
        runs := FactorialRuns.of(values, 1, floor=0.01), factorial_progress(runs)
    )
    assert verdicts.side[0, 0] == 0 and verdicts.low[0, 0] < 0 < verdicts.high[0, 0]
    verdicts = judge_factorial(runs := FactorialRuns.of(values, 1), factorial_progress(runs))
    assert verdicts.side[0, 0] == 1 and verdicts.p[0, 0] == 0


def test_a_lost_run_drops_the_rate_of_its_unit_only() -> None:
    values = study_of([PEAKED, PEAKED])
    lost = np.zeros(values.shape, bool)
    lost[0, 1, 6, 2] = True
    runs = FactorialRuns.of(values, 5, lost=lost)
    state = factorial_progress(runs)
    steps = grid_steps(5)
    assert state.ended[0] and set(steps[state.kept[0, 0]]) == {-4, -2, 0, 2, 4}
    assert set(steps[state.kept[0, 1]]) == {-4, 0, 2, 4}
    other = replace(runs, values=np.where(lost.any(-1, keepdims=True), 1e6, runs.values))
    np.testing.assert_array_equal(
        judge_factorial(runs, state).low,
        judge_factorial(replace(other, lost=lost), factorial_progress(other)).low,
    )


def test_a_unit_without_any_rate_left_is_not_decided() -> None:
    values = study_of([PEAKED, PEAKED, PEAKED])
    lost = np.zeros(values.shape, bool)
    lost[0, 1] = True
    runs = FactorialRuns.of(values, 5, lost=lost)
    verdicts = judge_factorial(runs, factorial_progress(runs))
    assert verdicts.too_coarse[0].tolist() == [True, False]


def test_every_run_of_a_unit_diverged() -> None:
    values = study_of([PEAKED, PEAKED])
    diverged = np.zeros(values.shape, bool)
    diverged[:, 1] = True
    runs = FactorialRuns.of(values, 5, diverged=diverged, chance=-60.0)
    verdicts = judge_factorial(runs, factorial_progress(runs))
    assert verdicts.side[0, 0] == -1 and verdicts.difference[0, 0] < -55


def test_validation_places_the_peak_and_the_test_curve_gives_the_height() -> None:
    placing = study_of([rising(4), rising(5)], noise=0.05)
    heights = study_of([rising(6), rising(6)], noise=0.05, seed=1)
    runs = FactorialRuns.of(heights, 5, validation=placing)
    verdicts = judge_factorial(runs, factorial_progress(runs))
    assert grid_steps(5)[verdicts.fit.best[0]].tolist() == [0, 2]
    assert verdicts.difference[0, 0] == pytest.approx(1.5, abs=0.2)
    alone = judge_factorial(tested := FactorialRuns.of(heights, 5), factorial_progress(tested))
    assert alone.difference[0, 0] == pytest.approx(0, abs=0.2)


def test_rates_one_by_one_share_the_level() -> None:
    rng = np.random.default_rng(45)
    values = 0.5 * rng.standard_normal((600, 4, 1, 6))
    values = values + 0.5 * rng.standard_normal((600, 4, 17, 6))
    runs = FactorialRuns.of(values, 5)
    alone = judge_single_rates(runs, np.array([4, 6, 8]))
    assert alone.low.shape == (600, 3, 3)
    wrong = (alone.side != 0).any((1, 2)).mean() * 100
    assert wrong <= most(5, 600)
    assert ((alone.p <= 0.05) == (alone.side != 0)).all()


@pytest.mark.parametrize("count", [0, 2, 3, -1])
def test_two_and_three_rates_are_refused(count: int) -> None:
    with pytest.raises(ArgumentError):
        planned_steps(count)


def test_steps_of_four_and_six_rates() -> None:
    assert planned_steps(4).tolist() == [-3, -1, 1, 3]
    assert planned_steps(6).tolist() == [-5, -3, -1, 1, 3, 5]
    assert grid_steps(4).tolist() == list(range(-7, 8))
    state = factorial_progress(FactorialRuns.of(np.full((1, 2, 15, 3), np.nan), 4))
    assert isinstance(state, Progress)
    assert set(grid_steps(4)[np.argwhere(state.asked[0])[:, 1]]) == {-3, -1, 1, 3}
