"""What a study found, read from its plain result.

Runs by block and unit, and the statistics over them.

A block is what units are compared within: one backbone on one data set under one recipe. Nothing is
averaged over blocks.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.stats import Comparison, Difference, Ranking, compare_paired, rank

COSTS = ("parameters", "flops", "saved_bytes", "seconds")
POINTS = {"test_accuracy": 100.0}  # metrics that are shares, shown in points of a hundred
LOWER_IS_BETTER = ("test_loss",)


@dataclass(frozen=True)
class Run:
    """One cell of the study: planned, and perhaps done."""

    key: str
    unit: str
    block: tuple[str, ...]
    seed: int
    config: Mapping[str, Any]
    record: Mapping[str, Any]  # empty if it has not been run

    @property
    def status(self) -> str:
        """``finished``, ``diverged``, ``failed``, or ``not run``."""
        return str(self.record.get("status", "not run"))


@dataclass(frozen=True)
class Metric:
    """What is compared: where a record has it, and how it is shown."""

    key: str
    factor: float
    higher_is_better: bool

    @property
    def name(self) -> str:
        """In words: ``test accuracy``."""
        return self.key.replace("_", " ")

    @property
    def label(self) -> str:
        """With what it is counted in."""
        return f"{self.name}, points" if self.factor != 1 else self.name

    def raw(self, scores: Mapping[str, Any] | None) -> float:
        """The value in a record of scores; NaN where it is not there."""
        found = (scores or {}).get(self.key)
        return float(found) if isinstance(found, int | float) else math.nan

    def of(self, scores: Mapping[str, Any] | None) -> float:
        """The value as it is shown."""
        return self.factor * self.raw(scores)


@dataclass(frozen=True)
class Block:
    """The runs of one backbone, data set and recipe, by unit, and what they show against the baseline."""

    name: str
    runs: Mapping[str, Sequence[Run]]  # unit: its runs, the baseline first
    baseline: str
    metric: Metric

    @cached_property
    def values(self) -> dict[str, dict[int, float]]:
        """Unit to {seed: value} over the runs that finished with a number.

        Units without any are left out.
        """
        found = {
            unit: {
                run.seed: self.metric.raw(run.record.get("metrics"))
                for run in runs
                if run.status == "finished"
            }
            for unit, runs in self.runs.items()
        }
        found = {
            unit: {s: v for s, v in values.items() if math.isfinite(v)}
            for unit, values in found.items()
        }
        return {unit: values for unit, values in found.items() if values}

    @cached_property
    def means(self) -> dict[str, float]:
        """Unit to the mean of its values."""
        return {unit: statistics.fmean(values.values()) for unit, values in self.values.items()}

    @cached_property
    def comparison(self) -> Comparison | None:
        """Every unit that shares a seed with the baseline against it; None where there is none."""
        base = self.values.get(self.baseline, {})
        kept = {unit: values for unit, values in self.values.items() if base.keys() & values.keys()}
        if len(kept) < 2:
            return None
        return in_points(
            compare_paired(kept, self.baseline, higher_is_better=self.metric.higher_is_better),
            self.metric.factor,
        )

    @property
    def compared(self) -> tuple[Difference, ...]:
        """The units of the comparison, without the baseline.

        None where nothing could be compared.
        """
        return self.comparison.differences if self.comparison else ()

    def verdict(self, unit: str) -> str:
        """What is shown of the unit here; nothing where it was not compared."""
        return next((one.verdict for one in self.compared if one.name == unit), "")

    def differences(self, unit: str) -> dict[int, float]:
        """Seed to the unit's value minus the baseline's, as shown."""
        ours, theirs = self.values[unit], self.values[self.baseline]
        return {
            seed: self.metric.factor * (ours[seed] - theirs[seed])
            for seed in ours
            if seed in theirs
        }

    def cost(self, unit: str, what: str) -> float:
        """The mean of a cost over the runs that finished; NaN where no run has it."""
        found = [run.record.get(what) for run in self.runs[unit] if run.status == "finished"]
        numbers = [float(v) for v in found if isinstance(v, int | float)]
        return statistics.fmean(numbers) if numbers else math.nan

    def ratio(self, unit: str, what: str) -> float:
        """The unit's cost over the baseline's; NaN where one is not known."""
        base = self.cost(self.baseline, what)
        return self.cost(unit, what) / base if base else math.nan


@dataclass(frozen=True)
class Findings:
    """The whole study."""

    title: str
    baseline: str
    metric: Metric
    study: Mapping[str, Any]
    version: str
    blocks: Sequence[Block]
    runs: Sequence[Run]
    origin: str = ""  # "gw.compare" or "recorder" where no study file made it
    tuned: Sequence[
        Mapping[str, Any]
    ] = ()  # the learning rate chosen for each unit and block, if that was asked for

    @property
    def units(self) -> list[str]:
        """Every unit, the baseline first."""
        return list(dict.fromkeys([self.baseline, *(run.unit for run in self.runs)]))

    @cached_property
    def ranking(self) -> Ranking | None:
        """Ranks over the blocks, of the units that have results in all.

        None for one block or one unit.
        """
        common = [unit for unit in self.units if all(unit in block.means for block in self.blocks)]
        if len(self.blocks) < 2 or len(common) < 2:
            return None
        blocks = [{unit: block.means[unit] for unit in common} for block in self.blocks]
        return rank(blocks, higher_is_better=self.metric.higher_is_better)


def in_points(comparison: Comparison, factor: float) -> Comparison:
    """The comparison with every value times ``factor``.

    Tests are made on values as recorded, and not touched.
    """

    def shown(one: Difference) -> Difference:
        low, high = one.interval
        return replace(
            one,
            mean=factor * one.mean,
            spread=factor * one.spread,
            difference=factor * one.difference,
            interval=(factor * low, factor * high),
        )

    mean, spread = factor * comparison.baseline_mean, factor * comparison.baseline_spread
    differences = tuple(map(shown, comparison.differences))
    return replace(comparison, baseline_mean=mean, baseline_spread=spread, differences=differences)


def findings(result: Mapping[str, Any]) -> Findings:
    """Read the plain result of a study; what is not one is an :class:`ArgumentError`."""
    try:
        return _read(result)
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        if isinstance(problem, ArgumentError):
            raise
        raise ArgumentError(
            "report: this is not the result of a study",
            got=f"{type(problem).__name__}: {problem}",
            fix="give the folder that gatewise compare wrote",
        ) from problem


def _read(result: Mapping[str, Any]) -> Findings:
    study, records = result["study"], {record["key"]: record for record in result["records"]}
    key = str(result.get("metric") or "test_accuracy")
    metric = Metric(key, POINTS.get(key, 1.0), key not in LOWER_IS_BETTER)
    varied = [
        what
        for what in ("backbone", "data", "recipe")
        if len({cell[what] for cell in result["cells"]}) > 1
    ]
    runs = [_run(cell, records.get(cell["key"], {})) for cell in result["cells"]]
    if not runs:
        raise ArgumentError("report: the study has no cells", got=0)
    baseline = str(result["baseline"])
    if baseline not in {run.unit for run in runs}:
        raise ArgumentError("report: no cell has the baseline", got=baseline)
    names = {
        _block(cell): " · ".join(str(cell[what]) for what in (varied or ["backbone"]))
        for cell in result["cells"]
    }
    blocks = [_gather(place, name, runs, baseline, metric) for place, name in names.items()]
    return Findings(
        title=str(result.get("title") or study.get("title") or ""),
        baseline=baseline,
        metric=metric,
        study=study,
        version=str(result.get("gatewise") or ""),
        blocks=blocks,
        runs=runs,
        origin=str(result.get("origin") or ""),
        tuned=list(result.get("tuned") or ()),
    )


def _block(cell: Mapping[str, Any]) -> tuple[str, ...]:
    return str(cell["backbone"]), str(cell["data"]), str(cell["recipe"])


def _run(cell: Mapping[str, Any], record: Mapping[str, Any]) -> Run:
    return Run(
        str(cell["key"]),
        str(cell["unit"]),
        _block(cell),
        int(cell["seed"]),
        cell.get("config") or {},
        record,
    )


def _gather(
    place: tuple[str, ...], name: str, runs: Sequence[Run], baseline: str, metric: Metric
) -> Block:
    here = [run for run in runs if run.block == place]
    units = list(dict.fromkeys([baseline, *(run.unit for run in here)]))
    return Block(
        name, {unit: [run for run in here if run.unit == unit] for unit in units}, baseline, metric
    )
