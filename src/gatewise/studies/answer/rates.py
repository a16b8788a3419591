"""A unit's metric over the learning rate, and the verdict against the baseline at each rate."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gatewise.stats import compare_runs, mean
from gatewise.studies.answer.first_line import tuning_runs
from gatewise.words import number, rate

if TYPE_CHECKING:
    from gatewise.stats import Difference
    from gatewise.studies.older import Block, StudyResult

WITHIN = 0.01  # a point of a share, or one per cent of any other metric


@dataclass(frozen=True)
class RateCurve:
    """One unit over the learning rate.

    Args:
        unit: Its label.
        chosen: The rate of its final runs; None if it is not known.
        held_out: Rate to the mean result of the tuning runs, on held-out training examples.
        tested: Rate to {seed: result} of the final and neighbour runs, on the test set. NaN for a
            run that diverged.
        verdicts: Rate to the difference from the baseline at the same rate, on the test set.
        best: The rate with the best result.
        good: The smallest and the largest rate around it whose results are within 1 point of it.
    """

    unit: str
    chosen: float | None
    held_out: Mapping[float, float]
    tested: Mapping[float, Mapping[int, float]]
    verdicts: Mapping[float, "Difference"] = field(default_factory=dict)
    best: float | None = None
    good: tuple[float, float] | None = None

    @property
    def rates(self) -> list[float]:
        """Every rate with a result, from the lowest to the highest."""
        return sorted(self.held_out.keys() | self.tested.keys())

    @property
    def decades(self) -> float | None:
        """How wide the range of good rates is, in powers of ten."""
        if self.good:
            return math.log10(self.good[1] / self.good[0])
        return None

    @property
    def good_words(self) -> str:
        """The range of good rates in words; empty if it is not known."""
        if self.good is None or self.decades is None:
            return ""
        if self.good[0] == self.good[1]:
            return f"{rate(self.good[0])} only"
        width = number(self.decades, 2)
        noun = "decade" if width == "1" else "decades"
        return f"{rate(self.good[0])} to {rate(self.good[1])} ({width} {noun})"


def rate_blocks(result: "StudyResult") -> dict["Block", list["Block"]]:
    """Return the blocks to draw over the learning rate, each with those that belong to it.

    Blocks whose recipes differ in nothing but the learning rate belong to the first of them.

    Args:
        result: Of the study.
    """
    first: dict[str, Block] = {}
    blocks: dict[Block, list[Block]] = {}
    for block in result.blocks:
        alike = repr(block) if result.tuned else _without_rate(result, block)
        head = first.setdefault(alike, block)
        blocks.setdefault(head, []).append(block)
    return blocks


def _without_rate(result: "StudyResult", block: "Block") -> str:
    """Return what a block trains, except for the unit and the learning rate."""
    runs = result.by_block[block][result.baseline]
    recipe = dict(runs[0].config.get("recipe") or {}) if runs else {}
    optimiser = recipe.get("optimiser")
    if not isinstance(optimiser, Mapping):
        return repr(block)
    recipe["optimiser"] = {name: value for name, value in optimiser.items() if name != "lr"}
    recipe.pop("name", None)
    return repr((block[0], block[1], json.dumps(recipe, sort_keys=True, default=str)))


def rate_curves(
    result: "StudyResult",
    block: "Block",
    more: Sequence["Block"] = (),
) -> list[RateCurve]:
    """Return the curve of every unit, the baseline first.

    Args:
        result: Of the study.
        block: Backbone, data set and recipe.
        more: Blocks that differ from it in nothing but the learning rate.

    Returns:
        Nothing if all results are at one rate.
    """
    tested: dict[str, dict[float, Mapping[int, float]]] = {}
    for place in dict.fromkeys((block, *more)):
        for unit, by_rate in result.rate_values(place).items():
            tested.setdefault(unit, {}).update(by_rate)
    held_out, settled = _held_out(result, block)
    rates: set[float] = set()
    for by_rate in (*tested.values(), *held_out.values()):
        rates |= by_rate.keys()
    if len(rates) < 2:
        return []
    verdicts = _verdicts(result, block, tested)
    chosen = {} if len(more) > 1 else result.chosen_rates(block)
    curves = []
    for unit in result.by_block[block]:
        means = held_out.get(unit) or _means(tested.get(unit, {}))
        best, good = _best(result, means, settled.get(unit) or set(means))
        curves.append(
            RateCurve(
                unit=unit,
                chosen=chosen.get(unit),
                held_out=held_out.get(unit, {}),
                tested=tested.get(unit, {}),
                verdicts=verdicts.get(unit, {}),
                best=best,
                good=good,
            )
        )
    return curves


def _held_out(
    result: "StudyResult",
    block: "Block",
) -> tuple[dict[str, dict[float, float]], dict[str, set[float]]]:
    """Return the mean of the tuning runs by unit and rate, and the rates with the most runs.

    Rates that were given up early have few runs. One of them can be best by chance.
    """
    by_unit: dict[str, dict[float, float]] = {}
    settled: dict[str, set[float]] = {}
    for group in result.tuning.get("groups") or ():
        if (group["backbone"], group["data"], group["recipe"]) != block:
            continue
        means: dict[float, float] = {}
        runs: dict[float, int] = {}
        for trial in group["tried"]:
            value = trial.get("mean")
            if isinstance(value, int | float) and math.isfinite(value):
                means[float(trial["lr"])] = float(value)
                runs[float(trial["lr"])] = tuning_runs(trial)
        if means:
            by_unit[group["unit"]] = means
            most = max(runs.values())
            settled[group["unit"]] = {value for value, count in runs.items() if count == most}
    return by_unit, settled


def _means(by_rate: Mapping[float, Mapping[int, float]]) -> dict[float, float]:
    """Return the mean at each rate over the runs that did not diverge."""
    means: dict[float, float] = {}
    for value, results in by_rate.items():
        finite = [result for result in results.values() if math.isfinite(result)]
        if finite:
            means[value] = mean(finite)
    return means


def _verdicts(
    result: "StudyResult",
    block: "Block",
    tested: Mapping[str, Mapping[float, Any]],
) -> dict[str, dict[float, "Difference"]]:
    """Compare every unit with the baseline at each rate that both have."""
    verdicts: dict[str, dict[float, Difference]] = {}
    others = max(len(result.by_block[block]) - 1, 1)
    for value in tested.get(result.baseline, {}):
        runs = {unit: by_rate[value] for unit, by_rate in tested.items() if value in by_rate}
        if len(runs) < 2:
            continue
        comparison = compare_runs(
            runs,
            result.baseline,
            higher_is_better=result.higher_is_better,
            comparisons=others,
            resolution=result.resolution(block),
        )
        for difference in comparison.differences:
            verdicts.setdefault(difference.name, {})[value] = difference
    return verdicts


def _best(
    result: "StudyResult",
    means: Mapping[float, float],
    settled: set[float],
) -> tuple[float | None, tuple[float, float] | None]:
    """Return the best rate, and the range of rates next to it with nearly the same result."""
    if len(means) < 2:
        return None, None
    sign = 1.0 if result.higher_is_better else -1.0
    best = max(settled, key=lambda value: sign * means[value])
    allowed = WITHIN if result.display.in_points else WITHIN * abs(means[best])
    rates = sorted(means)
    place = rates.index(best)
    low = place
    while low > 0 and sign * (means[best] - means[rates[low - 1]]) <= allowed:
        low -= 1
    high = place
    while high + 1 < len(rates) and sign * (means[best] - means[rates[high + 1]]) <= allowed:
        high += 1
    return best, (rates[low], rates[high])
