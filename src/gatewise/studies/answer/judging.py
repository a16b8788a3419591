"""From checked records to rows: the factorial rule applied to each model of a study."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import numpy as np

from gatewise.stats import (
    FactorialVerdicts,
    compare_runs,
    factorial_progress,
    judge_factorial,
    judge_single_rates,
    paired_t,
)
from gatewise.studies.answer.checked_study import CheckedStudy
from gatewise.studies.answer.rows import CurvePoint, EqualRate, ModelAnswer, UnitRow, Verdict
from gatewise.studies.engine import FAILED
from gatewise.words import plural, rate

PEAK_ALONE = "only the fitted peak is {side}"
BEST_ALONE = "only the best rate tried is {side}"
ON_DIVERGED = "depends on what a diverged run is worth"
OUTSIDE = "{whose} best rate is outside the grid"
TOO_COARSE = "learning rates too far apart for this noise"
TOO_FEW_RATES = "fewer than three learning rates with all seeds"
TOO_FEW_SEEDS = "fewer than three seeds"
BASELINE_LEARNED_NOTHING = "the baseline learned nothing"
PAIRS_LEFT = "{left} of {pairs} pairs left; interval from the worst case"
WITHIN_MARGIN = "by less than the margin"
# Confidence with which a network beats the best constant prediction.
LEARNED = 0.95
FEWEST_SEEDS = 3
FEWEST_RATES = 3
SIDES = {1: "better", -1: "worse", 0: "undecided"}


class ModelJudge:
    """Applies the rule to one model of a study.

    Args:
        study: Its header and records.
        model: Of the header.
        verdicts: Whether to give verdicts if the runs of the model have ended.
    """

    def __init__(self, study: CheckedStudy, model: str, *, verdicts: bool = True) -> None:
        self.study = study
        self.model = model
        self.header = study.header
        self.labels = study.header.labels
        self.sign = study.header.metric.sign
        self.runs = study.runs(model)
        self.state = factorial_progress(self.runs, widen=not study.header.origin)
        self.ended = verdicts and bool(self.state.ended[0])

    @property
    def missing(self) -> list[tuple[str, int, int]]:
        """The runs that are still asked for: unit, step and seed, seed by seed."""
        asked = []
        first = self.header.first_seed
        for seed, place, unit in np.argwhere(self.state.asked[0].transpose(2, 1, 0)):
            asked.append((self.labels[unit], self.study.steps[place], first + int(seed)))
        return asked

    def answer(self) -> ModelAnswer:
        """Return the rows: with verdicts if the study has ended."""
        verdicts = None
        if self.ended and self.header.seeds >= FEWEST_SEEDS:
            verdicts = judge_factorial(self.runs, self.state, comparisons=self.header.family)
        rows = [self._row(unit, verdicts) for unit in range(len(self.labels))]
        units = sorted(rows[1:], key=self._from_best_to_worst)
        # Before the first seeds are complete, no rate is dropped.
        every_seed = self.state.kept[..., None] & np.ones(self.runs.values.shape, bool)
        used = (self.state.used | every_seed) & ~self.runs.lost
        return ModelAnswer(
            model=self.model,
            rows=[rows[0], *units],
            done=int((used & self.runs.present).sum()),
            total=int(used.sum()),
            confidence=verdicts.confidence if verdicts else math.nan,
            missing=self.missing,
            dropped=self._lost_rates(),
        )

    def _from_best_to_worst(self, row: UnitRow) -> tuple[bool, float]:
        """Return what rows are sorted by: the difference, or the best mean without one."""
        value = row.difference if math.isfinite(row.difference) else row.best
        return (math.isnan(value), -self.sign * value)

    def _row(self, unit: int, verdicts: FactorialVerdicts | None) -> UnitRow:
        """Return the row of a unit by its place."""
        row = self._curve_row(unit)
        if verdicts is None:
            if unit == 0:
                return row
            if not self.ended:
                return replace(row, verdict="preliminary")
            return replace(row, verdict="not decided", reason=TOO_FEW_SEEDS)
        if not self.state.kept[0, unit].any():
            verdict: Verdict = "not decided" if unit else "baseline"
            return replace(row, verdict=verdict, reason=TOO_FEW_RATES)
        row = self._at_peak(row, unit, verdicts)
        if unit == 0:
            return row if self._has_learned(0) else replace(row, reason="nothing was learned")
        verdict, reason = self._verdict(unit, verdicts)
        if not self.state.kept[0, 0].any():
            return replace(row, verdict=verdict, reason=reason)
        place = (0, unit - 1)
        low, high = self._interval(verdicts.low[place], verdicts.high[place])
        left = _pairs_left(self._ended(unit, verdicts), self._ended(0, verdicts))
        return replace(
            row,
            verdict=verdict,
            reason="; ".join(filter(None, [reason, left])),
            difference=self.sign * float(verdicts.difference[place]),
            low=low,
            high=high,
            p=float(verdicts.p[place]),
            equal_rates=self._equal_rates(unit),
        )

    def _verdict(self, unit: int, verdicts: FactorialVerdicts) -> tuple[Verdict, str]:
        """Return the verdict on a unit and what limits it."""
        if not self.state.kept[0, 0].any():
            return "not decided", TOO_FEW_RATES
        if not self._has_learned(unit):
            return "nothing was learned", ""
        if not self._has_learned(0):
            return "not decided", BASELINE_LEARNED_NOTHING
        obstacle = self._obstacle(unit)
        if obstacle:
            return "not decided", obstacle
        place = (0, unit - 1)
        side = int(verdicts.side[place])
        margin = self.header.margin
        inside = (
            margin is not None
            and -margin < float(verdicts.low[place])
            and float(verdicts.high[place]) < margin
        )
        if side:
            return ("better" if side > 0 else "worse"), WITHIN_MARGIN if inside else ""
        if inside:
            return "equivalent", ""
        if verdicts.on_diverged[place]:
            return "undecided", ON_DIVERGED
        peak, best = int(verdicts.peak_side[place]), int(verdicts.best_side[place])
        if peak and not best:
            return "undecided", PEAK_ALONE.format(side=SIDES[peak])
        if best and not peak:
            return "undecided", BEST_ALONE.format(side=SIDES[best])
        return "undecided", ""

    def _obstacle(self, unit: int) -> str:
        """Return why a unit cannot be decided whatever its interval; empty if it can."""
        if self.runs.count == 1:
            return ""
        for place, whose in ((0, "the baseline's"), (unit, "its")):
            if self.state.at_edge[0, place]:
                return OUTSIDE.format(whose=whose)
        for place in (0, unit):
            if self.state.too_coarse[0, place]:
                few = int(self.state.kept[0, place].sum()) < FEWEST_RATES
                return TOO_FEW_RATES if few else TOO_COARSE
        return ""

    def _ended(self, unit: int, verdicts: FactorialVerdicts) -> dict[int, bool]:
        """Return which runs of a unit at its best rate did not diverge or collapse, by seed."""
        diverged = self.runs.diverged[0, unit, int(verdicts.fit.best[0, unit])]
        return {seed: not away for seed, away in enumerate(diverged.tolist())}

    def _at_peak(self, row: UnitRow, unit: int, verdicts: FactorialVerdicts) -> UnitRow:
        """Return a row with the place and the height of its peak."""
        fit = verdicts.fit
        best = int(fit.best[0, unit])
        stride = int(self.state.stride[0])
        step = self.study.steps[best] + stride * float(fit.peak[0, unit])
        kept = self.state.kept[0, unit]
        means = np.array([self._mean(unit, place) for place in range(len(self.study.steps))])
        height = float(fit.weights[0, unit][kept] @ means[kept])
        return replace(
            row,
            height=height,
            best=float(means[best]),
            spread=_spread(self._finished(unit, best)),
            best_rate=self.study.rate(self.study.steps[best]),
            peak_rate=self.study.rate(step),
            plateau=self._plateau(unit, means, best, float(fit.scale[0])),
            runs=self.header.seeds,
        )

    def _plateau(
        self,
        unit: int,
        means: np.ndarray,
        best: int,
        scale: float,
    ) -> tuple[float, float] | None:
        """Return the rates between which the curve is within ``scale`` of the best."""
        if self.header.rates is None or self.runs.count == 1:
            return None
        places = np.flatnonzero(self.state.kept[0, unit])
        level = self.sign * means[best] - scale
        ends = []
        for order in (places[places <= best][::-1], places[places >= best]):
            end = float(self.study.steps[best])
            for place, after in pairwise(order):
                here, there = self.sign * means[place], self.sign * means[after]
                step, next_step = self.study.steps[place], self.study.steps[after]
                if there < level:
                    end = step + (next_step - step) * (here - level) / (here - there)
                    break
                end = float(next_step)
            ends.append(self.header.rates.rate(end))
        return ends[0], ends[1]

    def _curve_row(self, unit: int) -> UnitRow:
        """Return a row with the curve of a unit."""
        label = self.labels[unit]
        records = [one for one in self.study.of_model(self.model) if one.unit == label]
        curve = []
        for place, step in enumerate(self.study.steps):
            present = self.runs.present[0, unit, place]
            if not present.any():
                continue
            diverged = self.runs.diverged[0, unit, place]
            left = self.sign * self._finished(unit, place)
            curve.append(
                CurvePoint(
                    step=step,
                    rate=self.study.rate(step),
                    mean=float(left.mean()) if len(left) else math.nan,
                    spread=_spread(left),
                    runs=int(present.sum()),
                    diverged=int(diverged.sum()),
                    judged=bool(self.state.kept[0, unit, place]),
                )
            )
        means = [point.mean for point in curve if math.isfinite(point.mean)]
        ratio = next(one.parameters_ratio for one in self.header.units if one.label == label)
        return UnitRow(
            unit=label,
            verdict="baseline",
            best=self.sign * max((self.sign * mean for mean in means), default=math.nan),
            curve=curve,
            diverged=sum(point.diverged for point in curve),
            failed=sum(record.status == FAILED for record in records),
            parameters_ratio=math.nan if ratio is None else ratio,
        )

    def _mean(self, unit: int, place: int) -> float:
        """Return the mean over seeds, a diverged run counted at what it is worth."""
        worth = float(self.runs.worth(self.runs.values, self.state.used)[0])
        values = np.where(
            self.runs.diverged[0, unit, place], worth, self.runs.values[0, unit, place]
        )
        return self.sign * float(values.mean())

    def _has_learned(self, unit: int) -> bool:
        """Return whether a unit beats the best constant prediction at some rate.

        The lower end of a 95 % interval of its mean must be above it, by the runs that did not
        collapse.
        """
        if self.header.chance is None:
            return True
        chance = self.sign * self.header.chance
        for place in np.flatnonzero(self.state.kept[0, unit]):
            left = self._finished(unit, place)
            if len(left) < 2:
                continue
            if float(paired_t(left, 1 - LEARNED, self.runs.floor).low) > chance:
                return True
        return False

    def _finished(self, unit: int, place: Any) -> np.ndarray:
        """Return the values at a rate of the runs that did not diverge."""
        values = self.runs.values[0, unit, place]
        return values[np.isfinite(values)]

    def _interval(self, low: float, high: float) -> tuple[float, float]:
        """Return the ends of an interval in recorded values, the lower one first."""
        ends = sorted((self.sign * float(low), self.sign * float(high)))
        return ends[0], ends[1]

    def _equal_rates(self, unit: int) -> Sequence[EqualRate]:
        """Return a unit against the baseline at every rate that all units have."""
        complete = (self.runs.present & ~self.runs.lost)[0].all((0, 2))
        places = np.flatnonzero(complete)
        if not len(places):
            return ()
        alone = judge_single_rates(self.runs, places)
        found = []
        for order, place in enumerate(places):
            at = (0, unit - 1, order)
            low, high = self._interval(alone.low[at], alone.high[at])
            found.append(
                EqualRate(
                    rate=self.study.rate(self.study.steps[place]),
                    difference=self.sign * float(alone.mean[at]),
                    low=low,
                    high=high,
                    p=float(alone.p[at]),
                )
            )
        return found

    def _lost_rates(self) -> list[str]:
        """Return in words at which rates a unit is judged without."""
        words = []
        for unit, label in enumerate(self.labels):
            lost = self.runs.lost[0, unit]
            rates = []
            for place in np.flatnonzero(lost.any(-1) & self.state.rates[0]):
                value = self.study.rate(self.study.steps[place])
                without = plural(int(lost[place].sum()), "run")
                rates.append(f"{rate(value) if value else 'one rate'} ({without} missing)")
            if rates:
                words.append(f"{label} is judged without {', '.join(rates)}")
        return words


def _pairs_left(ours: Mapping[int, bool], theirs: Mapping[int, bool]) -> str:
    """Return how many pairs of runs an interval has without those that diverged or collapsed.

    Args:
        ours: Whether each run of the unit was finished, by seed.
        theirs: The same of the baseline.

    Returns:
        An empty text if all are left, or if the runs are not paired.
    """
    pairs = ours.keys() & theirs.keys()
    left = sum(ours[seed] and theirs[seed] for seed in pairs)
    return "" if left == len(pairs) else PAIRS_LEFT.format(left=left, pairs=len(pairs))


def _spread(values: np.ndarray) -> float:
    """Return the standard deviation; NaN for fewer than two values."""
    return float(values.std(ddof=1)) if len(values) > 1 else math.nan


def judge_models(study: CheckedStudy) -> dict[str, ModelAnswer]:
    """Return the rows of every model. There are no verdicts until the runs of all have ended."""
    models = study.header.models
    answers = {model: _judge_model(study, model) for model in models}
    if any(answer.is_preliminary for answer in answers.values()):
        answers = {model: ModelJudge(study, model, verdicts=False).answer() for model in models}
    return answers


def _judge_model(study: CheckedStudy, model: str) -> ModelAnswer:
    """Return the rows of one model."""
    if study.header.origin and study.header.rates is None:
        return _judge_table(study, model)
    judge = ModelJudge(study, model)
    # At a single rate, the pairs that are left can be compared where a run failed.
    if judge.runs.count == 1 and judge.runs.lost.any() and judge.state.ended[0]:
        return _judge_table(study, model)
    return judge.answer()


def _judge_table(study: CheckedStudy, model: str) -> ModelAnswer:
    """Return the rows of runs at one learning rate, of which some units may lack seeds."""
    header = study.header
    results: dict[str, dict[int, float]] = {label: {} for label in header.labels}
    for record in study.of_model(model):
        if record.status != FAILED:
            value = math.nan if record.value is None else record.value
            results[record.unit][record.seed] = math.nan if study.has_collapsed(record) else value
    comparison = compare_runs(
        results,
        header.baseline,
        higher_is_better=header.metric.higher_is_better,
        margin=header.margin,
        comparisons=header.family,
        resolution=header.metric.floor,
        paired=header.paired,
    )
    base = UnitRow(
        unit=header.baseline,
        verdict="baseline",
        height=comparison.baseline_mean,
        best=comparison.baseline_mean,
        spread=comparison.baseline_spread,
        runs=comparison.n,
        diverged=comparison.baseline_diverged,
    )
    rows = []
    ended = {
        label: {seed: math.isfinite(value) for seed, value in runs.items()}
        for label, runs in results.items()
    }
    for one in comparison.differences:
        low, high = one.interval
        left = ""
        if math.isfinite(low) and header.paired is not False:
            left = _pairs_left(ended[one.name], ended[header.baseline])
        row = UnitRow(
            unit=one.name,
            verdict=cast(Verdict, one.verdict),
            reason="; ".join(filter(None, [one.reason or one.note, left])),
            difference=one.difference,
            low=low,
            high=high,
            p=one.p_corrected,
            height=one.mean,
            best=one.mean,
            spread=one.spread,
            runs=one.n,
            diverged=one.diverged,
            test=one.method,
        )
        rows.append(row)
    sign = header.metric.sign
    rows.sort(key=lambda row: (math.isnan(row.difference), -sign * row.difference))
    count = len(study.of_model(model))
    level = 1 - 0.05 / header.family
    return ModelAnswer(model, [base, *rows], count, count, confidence=level)


def missing_runs(study: CheckedStudy, model: str) -> list[tuple[str, int, int]]:
    """Return the runs that the rule still asks for: unit, step and seed, seed by seed.

    Args:
        study: Its header and records.
        model: Of the header.
    """
    return ModelJudge(study, model).missing
