"""Claims about networks that are trained at every learning rate with every seed.

Note [Claims over rates]. No rate is chosen. The difference of two networks has one interval, by the
factorial rule of `gatewise.stats`: it spans the difference at the fitted peaks of the two rate
curves and that at their best rates. All networks of the table decide together which rates count.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from gatewise.stats import (
    FactorialRuns,
    FactorialVerdicts,
    factorial_progress,
    judge_factorial,
)
from gatewise.stats.factorial import grid_steps, planned_steps
from gatewise_papers.common.claims import Show, judged, percent
from gatewise_papers.common.judgements import (
    ClaimEvidence,
    ClaimResult,
    Judgement,
    judge_everywhere,
)
from gatewise_papers.common.records import Claim, Numbers, Row, row

ByRate: TypeAlias = Mapping[float, Numbers]  # by rate: one value per seed, None if it diverged

LEVEL = 0.05
FEWEST_SEEDS = 3


def judge_over_rates(
    published: str,
    values: Mapping[str, ByRate],
    better: Sequence[str],
    others: Sequence[str],
    *,
    chance: float,
    show: Show = percent,
) -> Claim:
    """Judge that each of ``better`` is better than every one of ``others``.

    Args:
        published: what the paper says.
        values: by network and rate, one value per seed; larger is better.
        better: the names that the paper calls better.
        others: the names they are compared with.
        chance: what a run that diverged counts as.
        show: formats a number.
    """
    results = []
    for other in others:
        for name in better:
            among = len(better) * len(others)
            results.append(_judge_pair(values, name, other, chance, among))
    return judged(published, judge_everywhere(results), show=show)


def rate_rows(what: str, values: Mapping[str, ByRate], chance: float) -> list[Row]:
    """Return one row for each network and rate, and one for its best rate.

    Args:
        what: names the number.
        values: by network and rate.
        chance: what a run that diverged counts as.
    """
    rows = []
    for name, by_rate in values.items():
        best = max(by_rate, key=lambda rate: np.mean(_filled(by_rate[rate], chance)))
        rows.append(row(f"{what}, {name}", by_rate[best]))
        for rate, numbers in by_rate.items():
            rows.append(row(f"{what}, {name}, rate {rate:g}", numbers))
    return rows


def _judge_pair(
    values: Mapping[str, ByRate], ours: str, theirs: str, chance: float, among: int
) -> ClaimResult:
    """Judge one difference at the level, and a contradiction at the level of all of them."""
    name = f"{ours} and {theirs}"
    order = [theirs, ours, *(one for one in values if one not in (theirs, ours))]
    seeds = len(next(iter(values[ours].values())))
    if seeds < FEWEST_SEEDS:
        reason = f"{name}: {seeds} seeds, and at least {FEWEST_SEEDS} are needed"
        return ClaimResult(Judgement.NOT_TESTED, reason=reason)
    runs = _runs([values[one] for one in order], chance)
    state = factorial_progress(runs, widen=False)
    at_level, together = (
        judge_factorial(runs, state, level=level, comparisons=1) for level in (LEVEL, LEVEL / among)
    )
    judgement = Judgement.UNDECIDED
    if _side(at_level) > 0:
        judgement = Judgement.SUPPORTED
    elif _side(together) < 0:
        judgement = Judgement.CONTRADICTED
    evidence = ClaimEvidence(
        name=f"{name}{_trouble(at_level)}",
        n=seeds,
        difference=float(at_level.difference[0, 0]),
        interval=(float(at_level.low[0, 0]), float(at_level.high[0, 0])),
        confidence=1 - LEVEL,
    )
    return ClaimResult(judgement, (evidence,))


def _side(verdicts: FactorialVerdicts) -> int:
    """Return 1 if the first unit behind the baseline is better, -1 if it is worse, else 0."""
    return int(verdicts.side[0, 0])


def _trouble(verdicts: FactorialVerdicts) -> str:
    """Return why the difference cannot be decided; empty if nothing is wrong with the rates."""
    if verdicts.at_edge[0, 0]:
        return " (a best rate is at an end of the grid)"
    if verdicts.too_coarse[0, 0]:
        return " (rates too far apart for this noise)"
    return ""


def _runs(networks: Sequence[ByRate], chance: float) -> FactorialRuns:
    """Return the runs as arrays; rates between and beyond those of the table were not run."""
    count = len(networks[0])
    grid = grid_steps(count)
    places = np.flatnonzero(np.isin(grid, planned_steps(count)))
    seeds = len(next(iter(networks[0].values())))
    heights = np.full((1, len(networks), len(grid), seeds), np.nan)
    diverged = np.zeros(heights.shape, bool)
    for unit, by_rate in enumerate(networks):
        for place, rate in zip(places, sorted(by_rate), strict=True):
            numbers = np.array([np.nan if v is None else v for v in by_rate[rate]], float)
            heights[0, unit, place] = numbers
            diverged[0, unit, place] = ~np.isfinite(numbers)
    return FactorialRuns.of(heights, count, diverged=diverged, chance=chance)


def _filled(numbers: Numbers, chance: float) -> list[float]:
    """Return the values with those of diverged runs at chance level."""
    return [chance if v is None else float(v) for v in numbers]
