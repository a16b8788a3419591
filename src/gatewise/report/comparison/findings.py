"""The result of a study by block and unit, with the statistics over its runs.

A block is one network on one data set with one recipe. Units are compared within a block, and
nothing is averaged over blocks.
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
POINTS = {"test_accuracy": 100.0}  # metrics that are fractions are shown in percentage points
LOWER_IS_BETTER = ("test_loss",)


@dataclass(frozen=True)
class Run:
    """One planned run of the study, and its record if it was run.

    Args:
        key: The name of the run's folder.
        unit: The unit, with its options.
        block: The network, the data set and the recipe.
        seed: The seed.
        config: The configuration of the run.
        record: What the run wrote; empty if it was not run.
    """

    key: str
    unit: str
    block: tuple[str, ...]
    seed: int
    config: Mapping[str, Any]
    record: Mapping[str, Any]

    @property
    def status(self) -> str:
        """``finished``, ``diverged``, ``failed`` or ``not run``."""
        return str(self.record.get("status", "not run"))


@dataclass(frozen=True)
class Metric:
    """What is compared.

    Args:
        key: Its name in the records.
        factor: What a recorded value is multiplied with before it is shown.
        higher_is_better: Whether larger values are better.
    """

    key: str
    factor: float
    higher_is_better: bool

    @property
    def name(self) -> str:
        """The name in words: ``test accuracy``."""
        return self.key.replace("_", " ")

    @property
    def label(self) -> str:
        """The name with its unit."""
        return f"{self.name}, points" if self.factor != 1 else self.name

    def raw(self, scores: Mapping[str, Any] | None) -> float:
        """Return the value in a record of scores; NaN if it has none."""
        value = (scores or {}).get(self.key)
        return float(value) if isinstance(value, int | float) else math.nan

    def of(self, scores: Mapping[str, Any] | None) -> float:
        """Return the value as it is shown."""
        return self.factor * self.raw(scores)


@dataclass(frozen=True)
class Block:
    """The runs of one network, data set and recipe, and how they compare with the baseline.

    Args:
        name: The name of the block on the page.
        runs: The runs of each unit, the baseline first.
        baseline: The unit that the others are compared with.
        metric: What is compared.
    """

    name: str
    runs: Mapping[str, Sequence[Run]]
    baseline: str
    metric: Metric

    @cached_property
    def values(self) -> dict[str, dict[int, float]]:
        """Unit to {seed: value} of the runs that finished with a finite value.

        Units without such a run are left out.
        """
        values: dict[str, dict[int, float]] = {}
        for unit, runs in self.runs.items():
            for run in runs:
                value = self.metric.raw(run.record.get("metrics"))
                if run.status == "finished" and math.isfinite(value):
                    values.setdefault(unit, {})[run.seed] = value
        return values

    @cached_property
    def means(self) -> dict[str, float]:
        """Unit to the mean of its values."""
        return {unit: statistics.fmean(values.values()) for unit, values in self.values.items()}

    @cached_property
    def comparison(self) -> Comparison | None:
        """Every unit that shares a seed with the baseline; None if there is no such unit."""
        base = self.values.get(self.baseline, {})
        kept = {unit: values for unit, values in self.values.items() if base.keys() & values.keys()}
        if len(kept) < 2:
            return None
        higher = self.metric.higher_is_better
        return in_points(
            compare_paired(kept, self.baseline, higher_is_better=higher), self.metric.factor
        )

    @property
    def compared(self) -> tuple[Difference, ...]:
        """The units of the comparison without the baseline; empty if nothing was compared."""
        return self.comparison.differences if self.comparison else ()

    def verdict(self, unit: str) -> str:
        """Return the verdict on a unit; empty if it was not compared."""
        for difference in self.compared:
            if difference.name == unit:
                return difference.verdict
        return ""

    def with_verdict(self, verdict: str) -> list[Difference]:
        """Return the units with this verdict."""
        return [difference for difference in self.compared if difference.verdict == verdict]

    def differences(self, unit: str) -> dict[int, float]:
        """Return the unit's value minus the baseline's, as shown, by seed."""
        base = self.values[self.baseline]
        differences: dict[int, float] = {}
        for seed, value in self.values[unit].items():
            if seed in base:
                differences[seed] = self.metric.factor * (value - base[seed])
        return differences

    def cost(self, unit: str, what: str) -> float:
        """Return the mean of a cost over the finished runs; NaN if no run has it."""
        numbers = []
        for run in self.runs[unit]:
            value = run.record.get(what)
            if run.status == "finished" and isinstance(value, int | float):
                numbers.append(float(value))
        return statistics.fmean(numbers) if numbers else math.nan

    def ratio(self, unit: str, what: str) -> float:
        """Return the unit's cost over the baseline's; NaN if one is not known."""
        base = self.cost(self.baseline, what)
        return self.cost(unit, what) / base if base else math.nan


@dataclass(frozen=True)
class Findings:
    """The whole study.

    Args:
        title: The title, if the study has one.
        baseline: The unit that the others are compared with.
        metric: What is compared.
        study: The study file as plain values.
        version: The version of gatewise that ran it.
        blocks: One per network, data set and recipe.
        runs: All planned runs.
        origin: ``gw.compare`` or ``recorder`` if no study file started the runs.
        tuned: The learning rate chosen for each unit and block, if rates were tuned.
    """

    title: str
    baseline: str
    metric: Metric
    study: Mapping[str, Any]
    version: str
    blocks: Sequence[Block]
    runs: Sequence[Run]
    origin: str = ""
    tuned: Sequence[Mapping[str, Any]] = ()

    @property
    def units(self) -> list[str]:
        """Every unit, the baseline first."""
        return list(dict.fromkeys([self.baseline, *(run.unit for run in self.runs)]))

    @cached_property
    def ranking(self) -> Ranking | None:
        """Ranks over the blocks of the units that have results in all of them.

        None for fewer than two blocks or two units.
        """
        common = self.units
        for block in self.blocks:
            common = [unit for unit in common if unit in block.means]
        if len(self.blocks) < 2 or len(common) < 2:
            return None
        means = []
        for block in self.blocks:
            means.append({unit: block.means[unit] for unit in common})
        return rank(means, higher_is_better=self.metric.higher_is_better)


def in_points(comparison: Comparison, factor: float) -> Comparison:
    """Return the comparison with every value times ``factor``. p-values stay as they are."""
    differences = []
    for difference in comparison.differences:
        low, high = difference.interval
        differences.append(
            replace(
                difference,
                mean=factor * difference.mean,
                spread=factor * difference.spread,
                difference=factor * difference.difference,
                interval=(factor * low, factor * high),
            )
        )
    return replace(
        comparison,
        baseline_mean=factor * comparison.baseline_mean,
        baseline_spread=factor * comparison.baseline_spread,
        differences=tuple(differences),
    )


def read_findings(result: Mapping[str, Any]) -> Findings:
    """Read the plain result of a study.

    Raises:
        ArgumentError: If ``result`` is not the result of a study.
    """
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
    """Read the result of a study without catching errors of its form."""
    study = result["study"]
    cells = result["cells"]
    records = {record["key"]: record for record in result["records"]}
    runs = [_run(cell, records.get(cell["key"], {})) for cell in cells]
    if not runs:
        raise ArgumentError("report: the study has no runs", got=0)
    baseline = str(result["baseline"])
    if baseline not in {run.unit for run in runs}:
        raise ArgumentError("report: no run has the baseline", got=baseline)
    key = str(result.get("metric") or "test_accuracy")
    metric = Metric(key, POINTS.get(key, 1.0), key not in LOWER_IS_BETTER)
    blocks = []
    for place, name in _block_names(cells).items():
        here = [run for run in runs if run.block == place]
        blocks.append(_block(name, here, baseline, metric))
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


def _block_names(cells: Sequence[Mapping[str, Any]]) -> dict[tuple[str, ...], str]:
    """The name of each block: those of its three parts that are not the same for all blocks."""
    varied = []
    for part in ("backbone", "data", "recipe"):
        if len({cell[part] for cell in cells}) > 1:
            varied.append(part)
    names: dict[tuple[str, ...], str] = {}
    for cell in cells:
        names[_place(cell)] = " · ".join(str(cell[part]) for part in varied or ["backbone"])
    return names


def _place(cell: Mapping[str, Any]) -> tuple[str, ...]:
    """The network, the data set and the recipe of a planned run."""
    return str(cell["backbone"]), str(cell["data"]), str(cell["recipe"])


def _run(cell: Mapping[str, Any], record: Mapping[str, Any]) -> Run:
    """A planned run together with its record."""
    return Run(
        key=str(cell["key"]),
        unit=str(cell["unit"]),
        block=_place(cell),
        seed=int(cell["seed"]),
        config=cell.get("config") or {},
        record=record,
    )


def _block(name: str, runs: Sequence[Run], baseline: str, metric: Metric) -> Block:
    """Group the runs of one block by unit, the baseline first."""
    by_unit: dict[str, list[Run]] = {baseline: []}
    for run in runs:
        by_unit.setdefault(run.unit, []).append(run)
    return Block(name, by_unit, baseline, metric)
