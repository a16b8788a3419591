"""Judge the claims of a paper: supported, contradicted, undecided or not tested.

Note [Claims]. By the sign of two means a claim with nothing behind it holds half of the time. Here
a claim is supported only if an interval shows it, contradicted only if an interval shows the
opposite, and undecided otherwise. It is not tested if there are fewer than three seeds, if one side
is missing, or if all its runs diverged. Three seeds can settle only effects above 3.3 standard
deviations; ten seeds settle most effects above one.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from gatewise.checks import check_count, check_number
from gatewise.errors import ArgumentError
from gatewise.stats import mean
from gatewise.stats.comparison import (
    Rules,
    Seeds,
    check_seeds,
    estimates_of,
    make_rules,
    worst_value,
)
from gatewise.stats.estimates import Estimate, of_pairs
from gatewise.stats.power import detectable

LEVEL = 0.05


class Judgement(StrEnum):
    """What the runs say about a claim. The values are the words that are shown."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    UNDECIDED = "undecided"
    NOT_TESTED = "not tested"


@dataclass(frozen=True)
class ClaimEvidence:
    """One difference that a claim was judged by.

    Attributes:
        name: What was compared.
        n: Pairs of runs.
        difference: Their mean; positive is as the claim says.
        interval: At the level that "supported" asks for.
        confidence: The level of the interval.
    """

    name: str
    n: int
    difference: float
    interval: tuple[float, float]
    confidence: float


@dataclass(frozen=True)
class ClaimResult:
    """A judged claim.

    Attributes:
        judgement: One of four values.
        evidence: The differences that decided it.
        detectable: The smallest difference that would have been shown with a chance of 80 %; None
            if it is not known.
        reason: Why the claim was not tested; empty otherwise.
    """

    judgement: Judgement
    evidence: tuple[ClaimEvidence, ...] = ()
    detectable: float | None = None
    reason: str = ""


def judge_better(
    ours: Any,
    theirs: Any,
    *,
    among: int = 1,
    higher_is_better: bool = True,
    level: float = LEVEL,
) -> ClaimResult:
    """Judge the claim that one method is better than another. See Note [Claims].

    Args:
        ours: Value by seed, as a mapping, or a list with None for missing runs. NaN or infinity
            is a run that diverged.
        theirs: The same of the other method.
        among: Of how many comparisons this is one. A contradiction needs the level divided by it.
        higher_is_better: Whether larger values are better.
        level: The accepted chance of a wrong judgement.
    """
    check_count("judge_better", "among", among, least=1)
    rules = _rules(level, higher_is_better)
    gap = _gap("ours - theirs", ours, theirs, rules, "judge_better")
    if isinstance(gap, str):
        return ClaimResult(Judgement.NOT_TESTED, reason=gap)
    judgement = Judgement.UNDECIDED
    if gap.low(level) > 0:
        judgement = Judgement.SUPPORTED
    elif gap.high(level / among) < 0:
        judgement = Judgement.CONTRADICTED
    return _result(judgement, [gap], level)


def judge_comparable(
    ours: Any,
    theirs: Any,
    *,
    margin: float,
    among: int = 1,
    level: float = LEVEL,
) -> ClaimResult:
    """Judge the claim that two methods do not differ by more than ``margin``.

    Supported if the interval at twice the level lies inside the margin (two one-sided tests),
    contradicted if the interval at the level divided by ``among`` lies outside of it.

    Args:
        ours: Value by seed.
        theirs: Value by seed.
        margin: The largest difference that counts as comparable, > 0.
        among: Of how many comparisons this is one. A contradiction needs the level divided by it.
        level: The accepted chance of a wrong judgement, below 0.5.
    """
    check_number("judge_comparable", "margin", margin, above=0)
    check_count("judge_comparable", "among", among, least=1)
    rules = _rules(level, True)
    gap = _gap("ours - theirs", ours, theirs, rules, "judge_comparable")
    if isinstance(gap, str):
        return ClaimResult(Judgement.NOT_TESTED, reason=gap)
    judgement = Judgement.UNDECIDED
    if -margin < gap.low(2 * level) and gap.high(2 * level) < margin:
        judgement = Judgement.SUPPORTED
    elif gap.low(level / among) > margin or gap.high(level / among) < -margin:
        judgement = Judgement.CONTRADICTED
    return _result(judgement, [gap], 2 * level)


def judge_trend(
    levels: Mapping[int, Any] | Mapping[float, Any],
    *,
    monotone: bool = True,
    rises: bool = True,
    level: float = LEVEL,
) -> ClaimResult:
    """Judge the claim that a value rises with ``x``.

    Supported if the slope over seeds is shown to be positive and, for ``monotone``, no step falls
    at its own one-sided bound. Contradicted if the slope is shown to be
    negative, or a later level is shown to lie below an earlier one, at
    the level divided by the number of pairs.

    Args:
        levels: x to {seed: value}; three levels or more for a step to mean anything.
        monotone: False to judge the slope alone ("rises in general").
        rises: False for a claim that it falls.
        level: The accepted chance of a wrong judgement, below 0.5.
    """
    rules = _rules(level, rises)
    table, reason = _by_level(levels, rules)
    if reason:
        return ClaimResult(Judgement.NOT_TESTED, reason=reason)
    places = sorted(table[0])
    slopes = [_slope(values, places) for values in table]
    slope = _Gap("slope", slopes if rises else list(map(Estimate.reversed, slopes)))
    steps = [_step(table, one, other, rules) for one, other in pairwise(places)]
    later = [_step(table, one, other, rules) for one, other in combinations(places, 2)]
    fallen = any(gap.high(level / len(later)) < 0 for gap in later)
    even = all(gap.low(2 * level) > 0 for gap in steps)
    judgement = Judgement.UNDECIDED
    if slope.high(level) < 0 or (monotone and fallen):
        judgement = Judgement.CONTRADICTED
    elif slope.low(level) > 0 and (even or not monotone):
        judgement = Judgement.SUPPORTED
    return _result(judgement, [slope, *(steps if monotone else [])], level)


def judge_everywhere(results: Sequence[ClaimResult]) -> ClaimResult:
    """Judge a claim about several data sets: it must hold in every one.

    Args:
        results: The claim judged in each data set. For a contradiction at the level of them all,
            judge them with ``among`` set to their number.
    """
    if isinstance(results, str | Mapping) or not hasattr(results, "__iter__"):
        raise ArgumentError("judge_everywhere: a list of judged claims is needed", got=results)
    every = list(results)
    if not every or not all(isinstance(one, ClaimResult) for one in every):
        raise ArgumentError("judge_everywhere: a list of judged claims is needed", got=results)
    evidence: list[ClaimEvidence] = []
    sizes: list[float] = []
    judgements: set[Judgement] = set()
    reason = ""
    for one in every:
        evidence += one.evidence
        judgements.add(one.judgement)
        reason = reason or one.reason
        if one.detectable is not None:
            sizes.append(one.detectable)
    judgement = Judgement.UNDECIDED
    for candidate in (Judgement.CONTRADICTED, Judgement.NOT_TESTED):
        if candidate in judgements:
            judgement = candidate
            break
    if judgements == {Judgement.SUPPORTED}:
        judgement = Judgement.SUPPORTED
    if judgement is not Judgement.NOT_TESTED:
        reason = ""
    return ClaimResult(judgement, tuple(evidence), max(sizes, default=None), reason)


@dataclass(frozen=True)
class _Gap:
    """A difference in the direction of the claim, with and without its diverged runs."""

    name: str
    estimates: Sequence[Estimate]

    def low(self, alpha: float) -> float:
        """Return the lower end that holds for every estimate; minus infinity if none is known."""
        return self._end(alpha, 0, min, -math.inf)

    def high(self, alpha: float) -> float:
        """Return the upper end that holds for every estimate; infinity if none is known."""
        return self._end(alpha, 1, max, math.inf)

    def _end(
        self,
        alpha: float,
        end: int,
        over: Callable[[list[float]], float],
        unknown: float,
    ) -> float:
        bounds = [one.bounds(alpha)[end] for one in self.estimates]
        if any(map(math.isnan, bounds)):
            return unknown
        return over(bounds)


def _result(judgement: Judgement, gaps: Sequence[_Gap], alpha: float) -> ClaimResult:
    """Return the judged claim with its evidence."""
    evidence = []
    sizes = []
    for gap in gaps:
        main = gap.estimates[0]
        interval = (gap.low(alpha), gap.high(alpha))
        evidence.append(ClaimEvidence(gap.name, main.n, main.difference, interval, 1 - alpha))
        size = detectable(main, alpha)
        if size is not None:
            sizes.append(size)
    return ClaimResult(judgement, tuple(evidence), max(sizes, default=None))


def _gap(name: str, ours: Any, theirs: Any, rules: Rules, where: str) -> "_Gap | str":
    """Return the difference in the direction of the claim, or why it was not tested."""
    first = _values(ours, f"{where}: ours")
    second = _values(theirs, f"{where}: theirs")
    for runs in (first, second):
        if not runs:
            return "one side has no runs"
        if not any(map(math.isfinite, runs.values())):
            return "every run of one side diverged"
    estimates = estimates_of(first, second, rules, worst_value([first, second], rules))
    if estimates[0].n < 3:
        return "fewer than three seeds in common"
    if not rules.higher_is_better:
        estimates = list(map(Estimate.reversed, estimates))
    return _Gap(name, estimates)


def _values(values: Any, where: str) -> Seeds:
    """Return values by seed; the places of a list are its seeds."""
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
        values = dict(enumerate(values))
    return check_seeds(values, where)


def _by_level(levels: Any, rules: Rules) -> tuple[list[Mapping[float, Seeds]], str]:
    """Return values by level and seed, without and with diverged runs, or why not tested."""
    _check_mapping(levels, "judge_trend: levels")
    values: dict[float, Seeds] = {}
    for place, runs in levels.items():
        check_number("judge_trend", "level", place)
        values[place] = _values(runs, f"judge_trend: level {place:g}")
    if len(values) < 2:
        return [], "fewer than two levels"
    shared = set.intersection(*map(set, values.values()))
    worst = worst_value(list(values.values()), rules)
    whole: set[Hashable] = set()
    for seed in shared:
        if all(math.isfinite(runs[seed]) for runs in values.values()):
            whole.add(seed)
    if len(whole) < 3:
        return [], "fewer than three seeds in common"
    kept = {
        place: {seed: runs[seed] for seed in sorted(whole, key=repr)}
        for place, runs in values.items()
    }
    if len(whole) == len(shared):
        return [kept], ""
    filled: dict[float, Seeds] = {}
    for place, runs in values.items():
        filled[place] = {
            seed: runs[seed] if math.isfinite(runs[seed]) else worst
            for seed in sorted(shared, key=repr)
        }
    return [kept, filled], ""


def _slope(values: Mapping[float, Seeds], places: Sequence[float]) -> Estimate:
    """Estimate the slope over x by its value in each seed."""
    center = mean(places)
    offsets = np.array(places, dtype=np.float64) - center
    size = float(offsets @ offsets)
    slopes = []
    for seed in values[places[0]]:
        slopes.append(float(offsets @ [values[place][seed] for place in places]) / size)
    return of_pairs(slopes, resolution=0.0)


def _step(table: Sequence[Mapping[float, Seeds]], one: float, other: float, rules: Rules) -> _Gap:
    """Return the rise from one level to another, in the direction of the claim."""
    sign = 1 if rules.higher_is_better else -1
    estimates = []
    for values in table:
        gaps = [sign * (values[other][seed] - values[one][seed]) for seed in values[one]]
        estimates.append(of_pairs(gaps, resolution=rules.resolution))
    return _Gap(f"{other:g} - {one:g}", estimates)


def _rules(level: float, higher_is_better: bool) -> Rules:
    """Return the rules of one claim: only pairs count."""
    check_number("judge", "level", level, above=0, below=0.5)
    return make_rules(1, level, higher_is_better, None, 1, 0.0, True)


def _check_mapping(values: Any, name: str) -> None:
    """Raise unless ``values`` is a mapping with entries."""
    if not isinstance(values, Mapping) or not values:
        raise ArgumentError(f"{name} must be a mapping with one entry or more", got=values)
