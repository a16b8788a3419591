"""The result of a study as the page shows it: block by block, in the unit of display.

A block is one network on one data set with one recipe. Units are compared within a block. Nothing
is computed here that the terminal and the JSON do not use too: see :mod:`gatewise.studies`.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.stats import Comparison, Difference
from gatewise.studies import Display, PlannedRun, StudyResult, block_names
from gatewise.train import metric_mode

PARTS = ("backbone", "data", "recipe")
COSTS = ("parameters", "flops", "saved_bytes", "seconds")
Place = tuple[str, str, str]  # backbone, data set, recipe


@dataclass(frozen=True)
class Block:
    """The runs of one network, data set and recipe, and how they compare with the baseline.

    Args:
        name: The name of the block on the page.
        place: The network, the data set and the recipe.
        result: Of the whole study.
    """

    name: str
    place: Place
    result: StudyResult

    @property
    def baseline(self) -> str:
        """The unit that the others are compared with."""
        return self.result.baseline

    @cached_property
    def runs(self) -> Mapping[str, Sequence[PlannedRun]]:
        """The final runs of each unit, the baseline first."""
        final: dict[str, list[PlannedRun]] = {}
        for unit, runs in self.result.by_block[self.place].items():
            final[unit] = [run for run in runs if run.role == "final"]
        return final

    @cached_property
    def means(self) -> dict[str, float]:
        """Unit to the mean of its results, as recorded, over the runs that did not diverge."""
        means: dict[str, float] = {}
        for unit, results in self.result.values(self.place).items():
            finite = [value for value in results.values() if math.isfinite(value)]
            if finite:
                means[unit] = statistics.fmean(finite)
        return means

    @cached_property
    def comparison(self) -> Comparison | None:
        """Every unit against the baseline, in the unit of the records; None if not known."""
        return self.result.compare_block(self.place)

    @property
    def compared(self) -> tuple[Difference, ...]:
        """The units of the comparison without the baseline; empty if nothing was compared."""
        return self.comparison.differences if self.comparison else ()

    def differences(self, unit: str) -> dict[int, float]:
        """Return the unit's result minus the baseline's by seed, in the unit of display.

        Seeds of which one run diverged or is missing are left out.
        """
        results = self.result.values(self.place)
        base = results[self.baseline]
        differences: dict[int, float] = {}
        for seed, value in results.get(unit, {}).items():
            gap = value - base.get(seed, math.nan)
            if math.isfinite(gap):
                differences[seed] = self.result.display.factor * gap
        return differences

    @property
    def has_costs(self) -> bool:
        """Whether any cost of any unit is known."""
        units = self.result.block_costs[self.place].values()
        return any(costs[what] is not None for costs in units for what in COSTS)

    def cost(self, unit: str, what: str) -> float:
        """Return the mean of a cost over the finished runs; NaN if it is not known."""
        value = self.result.block_costs[self.place].get(unit, {}).get(what)
        return math.nan if value is None else float(value)

    def ratio(self, unit: str, what: str) -> float:
        """Return the unit's cost over the baseline's; NaN if one is not known."""
        base = self.cost(self.baseline, what)
        if base:
            return self.cost(unit, what) / base
        return math.nan


@dataclass(frozen=True)
class Findings:
    """The whole study.

    Args:
        result: Its records and comparisons.
        blocks: One per network, data set and recipe.
    """

    result: StudyResult
    blocks: Sequence[Block]

    @property
    def title(self) -> str:
        """The title, if the study has one."""
        return str(self.result.content.get("title") or self.study.get("title") or "")

    @property
    def baseline(self) -> str:
        """The unit that the others are compared with."""
        return self.result.baseline

    @property
    def display(self) -> Display:
        """How the metric is shown."""
        return self.result.display

    @property
    def study(self) -> Mapping[str, Any]:
        """The study file as plain values."""
        return self.result.content["study"]

    @property
    def runs(self) -> Sequence[PlannedRun]:
        """All planned runs."""
        return self.result.runs

    @property
    def origin(self) -> str:
        """``gw.compare``, ``recorder`` or another name, if no study file started the runs."""
        return str(self.result.content.get("origin") or "")

    @cached_property
    def units(self) -> list[str]:
        """Every unit, the baseline first."""
        return list(dict.fromkeys([self.baseline, *self.result.units]))


def read_findings(result: StudyResult | Mapping[str, Any]) -> Findings:
    """Read the result of a study.

    Args:
        result: What a study returned, or its plain values.

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


def _read(result: StudyResult | Mapping[str, Any]) -> Findings:
    """Read the result of a study without catching errors of its form."""
    if not isinstance(result, StudyResult):
        result = _from_plain(result)
    if not result.runs:
        raise ArgumentError("report: the study has no runs", got=0)
    if result.baseline not in result.units:
        raise ArgumentError("report: no run has the baseline", got=result.baseline)
    metric_mode(result.metric, result.content.get("mode"))
    blocks = []
    for place, name in block_names(result).items():
        blocks.append(Block(name, place, result))
    return Findings(result, blocks)


def _from_plain(result: Mapping[str, Any]) -> StudyResult:
    """The result from its plain values; what was computed before is computed again."""
    records = tuple(result["records"])
    damaged = tuple(result.get("damaged") or ())
    tuning = result.get("tuning") or {}
    _check_tables("study", [result["study"]])
    _check_tables("tuning", [tuning])
    _check_tables("records", records, str, "key", "status")
    _check_tables("damaged", damaged, str, "key", "problem")
    _check_tables("left_out", result.get("left_out") or ())
    _check_tables("groups", result.get("groups") or (), str, "unit", *PARTS)
    for name in ("grids", "groups"):
        _check_tables(f"tuning.{name}", tuning.get(name) or (), str, *PARTS)
    tuned = [*(tuning.get("groups") or ()), *(result.get("tuned") or ())]
    _check_tables("tuned", tuned, str, "unit", *PARTS)
    for group in tuned:
        _check_tables("tried", group["tried"], int | float, "lr")
    for record in records:
        _check_tables("metrics", [record.get("metrics") or {}])
        _check_tables("curve", record.get("curve") or (), int | float, "epoch")
        _check_tables("environment", [record.get("environment") or {}])
    for cell in result["cells"]:
        config = cell.get("config") or {}
        _check_tables("config", [config])
        for name in ("recipe", "model_options"):
            _check_tables(f"config.{name}", [config.get(name) or {}])
    content = {**result, "records": None, "baseline": str(result["baseline"])}
    return StudyResult(str(result.get("folder") or ""), content, records, damaged)


def _check_tables(where: str, tables: Any, kind: Any = str, *names: str) -> None:
    """Refuse what is not a list of tables that have values of one type under these names."""
    if isinstance(tables, str | Mapping) or not isinstance(tables, Sequence):
        raise TypeError(f"{where} must be a list of tables, not {type(tables).__name__}")
    for table in tables:
        if not isinstance(table, Mapping):
            raise TypeError(f"{where}: a table was expected, not {type(table).__name__}")
        for name in names:
            if not isinstance(table[name], kind):
                raise TypeError(f"{where}: {name} cannot be {table[name]!r:.60}")
