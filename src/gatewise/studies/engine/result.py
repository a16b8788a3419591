"""The result of a study: its records read back once, compared, and set against costs."""

import base64
import binascii
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gatewise.errors import ArgumentError, DamagedFileError
from gatewise.stats import Comparison, Ranking, compare_runs, compare_tuned_runs, mean, rank
from gatewise.studies.answer import (
    Display,
    Line,
    answer_lines,
    difference_words,
    display_of,
    further_lines,
    headline,
    plain_text,
)
from gatewise.studies.engine.cell_work import plain
from gatewise.studies.engine.folder import StudyFolder
from gatewise.studies.engine.table import as_text
from gatewise.train import bare_metric, metric_mode

Block = tuple[str, str, str]  # backbone, data set, recipe
Results = dict[str, dict[int, float]]  # unit to {seed: value}; NaN for a run that diverged
COUNTED = ("parameters", "flops", "saved_bytes")
COSTS = (*COUNTED, "seconds")
GPU_NUMBER = re.compile(r":\d+")  # in cuda:0 (NVIDIA A100)
# What the time of a run depends on. Of a device, its number does not matter.
MACHINE = ("cpu_capability", "device", "threads", "processes", "units")
ACCURACIES = ("accuracy", "acc", "top1", "top5")  # the share of right test examples
RANKED_FROM = 10  # data sets: with fewer, a test of ranks has no power
# Relative differences of costs that count as equal. Times are never equal, and 5 % is noise.
EQUAL = 1e-9
TIME_NOISE = 0.05
BRIEF = ("key", "unit", "backbone", "data", "recipe", "seed", "status", "reason")


def read_study(folder: str | Path) -> "StudyResult":
    """Return the study in ``folder``, with the records of all cells that are done.

    A record that was changed or cut off is set aside and named in ``damaged``.
    """
    study = StudyFolder(folder)
    content = study.read()
    records = []
    damaged = []
    for cell in content["cells"]:
        try:
            record = study.record(cell["key"])
        except DamagedFileError as problem:
            damaged.append({"key": cell["key"], "problem": str(problem)})
            continue
        if record is not None:
            records.append(record)
    return StudyResult(str(folder), content, tuple(records), tuple(damaged))


@dataclass(frozen=True)
class PlannedRun:
    """One planned run of a study, and its record if it has one.

    Args:
        key: The name of the run's folder.
        unit: The label of the unit.
        block: The network, the data set and the recipe.
        seed: The seed.
        lr: The learning rate; None if the recipe has none, or if it is not known.
        role: ``final`` (at the rate that was chosen, or at the only one) or ``neighbour`` (at a
            rate next to it).
        config: The configuration of the run.
        record: What the run wrote; empty if it has no record.
        damaged: Whether there is a record that cannot be read.
    """

    key: str
    unit: str
    block: Block
    seed: int
    lr: float | None
    role: str
    config: Mapping[str, Any]
    record: Mapping[str, Any]
    damaged: bool = False

    @property
    def status(self) -> str:
        """``finished``, ``diverged``, ``failed``, ``damaged`` or ``not run``."""
        if self.damaged:
            return "damaged"
        return str(self.record.get("status", "not run"))

    def value(self, metric: str) -> float | None:
        """Return the result; NaN if the run diverged, None if it has no result."""
        if self.status == "diverged":
            return math.nan
        metrics = self.record.get("metrics") or {}
        if self.status != "finished" or metric not in metrics:
            return None
        value = metrics[metric]
        if isinstance(value, int | float):
            return float(value)
        return math.nan

    def correct(self, metric: str) -> np.ndarray | None:
        """Return right or wrong for each test example, if that is what the metric counts."""
        text = self.record.get("correct")
        examples = self.record.get("examples")
        if not isinstance(text, str) or not isinstance(examples, int):
            return None
        try:
            packed = np.frombuffer(base64.b64decode(text, validate=True), np.uint8)
            bits = np.unpackbits(packed, count=examples).astype(bool)
        except (binascii.Error, ValueError):
            return None
        value = self.value(metric)
        if value is None or len(bits) != examples or abs(bits.mean() - value) > 0.5 / examples:
            return None
        return bits


@dataclass(frozen=True)
class StudyResult:
    """A study, finished or not.

    ``cells`` is what was planned, ``records`` what is done; both are plain tables. A run that
    diverged is a result. A run that failed, or whose record is damaged, is missing.

    Args:
        folder: Where it was read from.
        content: What was planned, as in ``study.json``.
        records: One for each run that has ended.
        damaged: ``key`` and ``problem`` of each record that cannot be read.
    """

    folder: str
    content: Mapping[str, Any]
    records: tuple[Mapping[str, Any], ...]
    damaged: tuple[Mapping[str, str], ...] = ()

    @property
    def cells(self) -> Sequence[Mapping[str, Any]]:
        """The planned cells: key, unit, backbone, data, recipe, seed and config of each."""
        return self.content["cells"]

    @property
    def baseline(self) -> str:
        """The unit that all others are compared with."""
        return self.content["baseline"]

    @property
    def metric(self) -> str:
        """What is judged."""
        return str(self.content.get("metric") or "test_accuracy")

    @property
    def margin(self) -> float | None:
        """The margin of equivalence that was stated, in the unit of the records; None if none."""
        margin = self.content.get("margin")
        if isinstance(margin, int | float):
            return float(margin)
        return None

    @property
    def tuning(self) -> Mapping[str, Any]:
        """How learning rates were chosen: ``mode``, ``why``, ``grid`` and ``groups``.

        A folder of an older version has the groups only.
        """
        tuning = self.content.get("tuning")
        if isinstance(tuning, Mapping):
            return tuning
        groups = list(self.content.get("tuned") or ())
        return {"mode": "custom" if groups else "none", "groups": groups}

    @property
    def tuned(self) -> bool:
        """Whether a learning rate was chosen for each unit."""
        return self.tuning.get("mode", "none") != "none"

    @cached_property
    def runs(self) -> tuple[PlannedRun, ...]:
        """Every planned run with its record."""
        records = {record["key"]: record for record in self.records}
        damaged = {problem["key"] for problem in self.damaged}
        return tuple(
            _run(cell, records.get(cell["key"], {}), cell["key"] in damaged) for cell in self.cells
        )

    @cached_property
    def by_block(self) -> dict[Block, dict[str, list[PlannedRun]]]:
        """The runs of each block by unit, the baseline first."""
        blocks: dict[Block, dict[str, list[PlannedRun]]] = {}
        for run in self.runs:
            units = blocks.setdefault(run.block, {self.baseline: []})
            units.setdefault(run.unit, []).append(run)
        return blocks

    @cached_property
    def units(self) -> list[str]:
        """Labels, in the order of the study."""
        return list(dict.fromkeys(cell["unit"] for cell in self.cells))

    @cached_property
    def blocks(self) -> list[Block]:
        """Every backbone on every data set with every recipe: units are compared within one."""
        return list(self.by_block)

    @cached_property
    def higher_is_better(self) -> bool:
        """Whether larger values of the metric are better."""
        return metric_mode(self.metric, self.content.get("mode")) == "max"

    @cached_property
    def display(self) -> Display:
        """How the metric is shown."""
        values = []
        for run in self.runs:
            value = run.value(self.metric)
            if value is not None and math.isfinite(value):
                values.append(value)
        return display_of(self.metric, self.higher_is_better, values)

    def values(self, block: Block, metric: str | None = None) -> Results:
        """Return unit to {seed: value} of the final runs in the block.

        Args:
            block: backbone, data set and recipe.
            metric: its name in the records; the judged one if not given.

        Returns:
            NaN for a run that diverged. Runs without a result are left out, and so are units
            without any.
        """
        return self._results(block, metric or self.metric)[0]

    def rate_values(
        self,
        block: Block,
        metric: str | None = None,
    ) -> dict[str, dict[float, dict[int, float]]]:
        """Return unit to {learning rate: {seed: value}} of the final and the neighbour runs.

        Args:
            block: backbone, data set and recipe.
            metric: its name in the records; the judged one if not given.
        """
        return self._results(block, metric or self.metric)[1]

    def chosen_rates(self, block: Block) -> dict[str, float]:
        """Return the learning rate of each unit's final runs, where it is known."""
        chosen: dict[str, float] = {}
        for unit, runs in self.by_block[block].items():
            for run in runs:
                if run.role == "final" and run.lr is not None:
                    chosen[unit] = run.lr
        return chosen

    def compare(
        self,
        backbone: str | None = None,
        metric: str | None = None,
        *,
        data: str | None = None,
        recipe: str | None = None,
    ) -> Comparison:
        """Compare every unit with the baseline on one backbone.

        Args:
            backbone: its name; needed if there are several.
            metric: its name in the records; the judged one if not given.
            data: label of the data set; needed if there are several.
            recipe: its name; needed if there are several.
        """
        block = self._block(backbone, data, recipe)
        comparison = self.compare_block(block, metric)
        if comparison is None:
            raise ArgumentError(
                "compare: the baseline or all other units have no result here",
                got=f"{self.baseline} in {block[0]}",
            )
        return comparison

    def compare_block(self, block: Block, metric: str | None = None) -> Comparison | None:
        """Compare every unit with the baseline; None if there is nothing to compare.

        The level is shared among the units that were planned in the block.
        """
        metric = metric or self.metric
        key = (block, metric)
        if key not in self._comparisons:
            others = len(self.by_block[block]) - 1
            self._comparisons[key] = self.compare_units(
                block,
                self.baseline,
                comparisons=others,
                metric=metric,
            )
        return self._comparisons[key]

    def compare_units(
        self,
        block: Block,
        baseline: str,
        *,
        comparisons: int,
        metric: str | None = None,
        units: Iterable[str] | None = None,
    ) -> Comparison | None:
        """Compare units with any one of them; None if there is nothing to compare.

        Args:
            block: backbone, data set and recipe.
            baseline: the unit that the others are compared with.
            comparisons: how many comparisons share the level.
            metric: its name in the records; the judged one if not given.
            units: which ones; all if not given.
        """
        metric = metric or self.metric
        values, by_rate = self._results(block, metric)
        wanted = set(values if units is None else units) | {baseline}
        kept = {unit: results for unit, results in values.items() if unit in wanted}
        if baseline not in kept or len(kept) < 2:
            return None
        judged = metric == self.metric
        options: dict[str, Any] = {
            "higher_is_better": self.higher_is_better if judged else _higher(metric),
            "margin": self.margin if judged else None,
            "comparisons": max(comparisons, 1),
            "resolution": self.resolution(block) if judged else 0.0,
        }
        chosen = self.chosen_rates(block)
        correct = self._correct(block, metric, kept)
        if self.tuned and all(unit in chosen for unit in kept):
            return compare_tuned_runs(
                {unit: by_rate[unit] for unit in kept},
                {unit: chosen[unit] for unit in kept},
                baseline,
                grid=self._grid(block, by_rate),
                correct=correct,
                **options,
            )
        final = {unit: rates.get(chosen.get(unit), {}) for unit, rates in correct.items()}
        return compare_runs(kept, baseline, correct=final, **options)

    def all_results(
        self,
        blocks: Sequence[Block] | None = None,
    ) -> tuple[dict[Block, Any], dict[Any, dict[str, float]] | None, list[float] | None]:
        """Return what the statistics of several blocks take.

        Args:
            blocks: which ones; all that have a result of the baseline if not given.

        Returns:
            The results by block and unit (and by learning rate if rates were chosen), the chosen
            rates, and all rates. The last two are None for a study that is not tuned.
        """
        results: dict[Block, Any] = {}
        chosen: dict[Any, dict[str, float]] = {}
        rates: set[float] = set()
        for block in blocks or self.blocks:
            values, by_rate = self._results(block, self.metric)
            if self.baseline not in values:
                continue
            chosen[block] = {}
            for unit, rate in self.chosen_rates(block).items():
                if unit in values:
                    chosen[block][unit] = rate
            rates |= set(self._grid(block, by_rate))
            results[block] = values
            if self.tuned:
                results[block] = {unit: by_rate[unit] for unit in chosen[block]}
        if self.tuned:
            return (results, chosen, sorted(rates))
        return (results, None, None)

    def ranking(self, metric: str | None = None) -> Ranking | None:
        """Return mean ranks over data sets; None for fewer than ten data sets or two units.

        Backbones and recipes on one data set are not independent: a unit's value on a data set is
        its mean over them.
        """
        metric = metric or self.metric
        by_data: dict[str, dict[str, list[float]]] = {}
        for block in self.blocks:
            units = by_data.setdefault(block[1], {})
            for unit, results in self.values(block, metric).items():
                finite = [value for value in results.values() if math.isfinite(value)]
                if finite:
                    units.setdefault(unit, []).append(mean(finite))
        common = set(self.units)
        for units in by_data.values():
            common &= units.keys()
        if len(by_data) < RANKED_FROM or len(common) < 2:
            return None
        means = []
        for units in by_data.values():
            means.append({unit: mean(units[unit]) for unit in self.units if unit in common})
        return rank(means, higher_is_better=self.higher_is_better)

    @cached_property
    def costs(self) -> list[dict[str, Any]]:
        """Unit x block: parameters, operations, bytes and seconds, and ratios to the baseline.

        ``seconds`` are those of the fastest run, because other work on a machine only adds time:
        processor time if all runs had one thread of a CPU, else wall time. ``slowest`` is the time
        of the slowest run over that of the fastest. See :func:`_comparable_times` for runs on
        several machines.

        ``unequal`` names the costs that differ from the baseline's. A difference in results may be
        due to them.
        """
        groups: dict[tuple[str, Block], Mapping[str, Any]] = {}
        for group in self.content.get("groups") or ():
            groups[group["unit"], _block_of(group)] = group
        rows = []
        for block, units in self.by_block.items():
            known = {}
            times = _comparable_times(units)
            for unit, runs in units.items():
                known[unit] = _counted_costs(runs, groups.get((unit, block), {}))
                known[unit]["seconds"] = min(times[unit], default=None)
            for unit, costs in known.items():
                if not units[unit]:
                    continue  # the baseline, if none of its runs was planned
                base = known[self.baseline]
                ratios = {name: _ratio(costs[name], base[name]) for name in COSTS}
                row = {
                    "unit": unit,
                    "backbone": block[0],
                    "data": block[1],
                    "recipe": block[2],
                    **costs,
                    "slowest": max(times[unit]) / min(times[unit]) if times[unit] else None,
                    "ratios": ratios,
                    "unequal": [name for name, ratio in ratios.items() if _differs(name, ratio)],
                    "matched": groups.get((unit, block), {}).get("matched", {}),
                }
                rows.append(row)
        return rows

    @cached_property
    def block_costs(self) -> dict[Block, dict[str, dict[str, Any]]]:
        """The costs of each block by unit."""
        blocks: dict[Block, dict[str, dict[str, Any]]] = {}
        for cost in self.costs:
            blocks.setdefault(_block_of(cost), {})[cost["unit"]] = cost
        return blocks

    @cached_property
    def headline(self) -> str:
        """How learning rates were chosen, or that they were not: the first line of the answer."""
        return headline(self)

    @cached_property
    def answer(self) -> list[Line]:
        """The answer in a few sentences, as the terminal and the page show it."""
        return answer_lines(self)

    @cached_property
    def further(self) -> list[Line]:
        """How certain the answer is, what differs between blocks, and at what cost."""
        return further_lines(self)

    def __str__(self) -> str:
        return as_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything in plain values: what was planned, what is done, and what it shows."""
        brief = []
        for record in self.records:
            if record["status"] != "finished":
                brief.append({name: record.get(name) for name in BRIEF})
        return {
            "headline": self.headline,
            "answer": [plain_text(line) for line in (*self.answer, *self.further)],
            "folder": self.folder,
            **self.content,
            "records": [_plain_record(record) for record in self.records],
            **plain(
                {
                    "damaged": list(self.damaged),
                    "costs": self.costs,
                    "blocks": [self._block_content(block) for block in self.blocks],
                    "ranking": self.ranking(),
                    "not_finished": brief,
                    "missing": len(self.cells) - len(self.records) - len(self.damaged),
                }
            ),
        }

    def _block_content(self, block: Block) -> dict[str, Any]:
        """Return what one block shows, in plain values."""
        comparison = self.compare_block(block)
        sentences = {}
        for difference in comparison.differences if comparison else ():
            sentences[difference.name] = difference_words(self, difference)
        return {
            "backbone": block[0],
            "data": block[1],
            "recipe": block[2],
            "metric": self.metric,
            "rates": self.chosen_rates(block),
            "comparison": comparison,
            "sentences": sentences,
            "values": self.values(block),
        }

    def _block(
        self,
        backbone: str | None,
        data: str | None,
        recipe: str | None,
    ) -> Block:
        """Return the one block that fits, or raise."""
        asked = (backbone, data, recipe)
        fitting = []
        for block in self.blocks:
            if all(want in (None, have) for want, have in zip(asked, block, strict=True)):
                fitting.append(block)
        if len(fitting) != 1:
            names = " | ".join(", ".join(block) for block in self.blocks)
            raise ArgumentError(
                "compare: one backbone, data set and recipe is needed",
                got=asked,
                allowed=names,
            )
        return fitting[0]

    @cached_property
    def _comparisons(self) -> dict[tuple[Block, str], Comparison | None]:
        """The comparisons that were made, by block and metric."""
        return {}

    @cached_property
    def _read(self) -> dict[tuple[Block, str], Any]:
        """The values that were collected, by block and metric."""
        return {}

    def _results(
        self,
        block: Block,
        metric: str,
    ) -> tuple[Results, dict[str, dict[float, dict[int, float]]]]:
        """Return the results of the final runs, and those at every rate, read once."""
        if (block, metric) in self._read:
            return self._read[block, metric]
        final: Results = {}
        by_rate: dict[str, dict[float, dict[int, float]]] = {}
        for unit, runs in self.by_block[block].items():
            for run in runs:
                value = run.value(metric)
                if value is None:
                    continue
                if run.role == "final":
                    final.setdefault(unit, {})[run.seed] = value
                if run.lr is not None:
                    by_rate.setdefault(unit, {}).setdefault(run.lr, {})[run.seed] = value
        self._read[block, metric] = final, by_rate
        return final, by_rate

    def resolution(self, block: Block) -> float:
        """Return the smallest step of the metric: what was stated, or one test example.

        0 if it is not known.
        """
        stated = self.content.get("resolution")
        if isinstance(stated, int | float):
            return float(stated)
        if not self.display.in_points or bare_metric(self.metric) not in ACCURACIES:
            return 0.0
        most = 0
        for runs in self.by_block[block].values():
            for run in runs:
                examples = run.record.get("examples")
                most = max(most, examples if isinstance(examples, int) else 0)
        return 1.0 / most if most else 0.0

    def _grid(self, block: Block, by_rate: Mapping[str, Mapping[float, Any]]) -> list[float]:
        """Return all learning rates of a block, and those next to the ends of its grid."""
        rates = {rate for rates in by_rate.values() for rate in rates}
        for table in self.tuning.get("grids") or ():
            if _block_of(table) == block:
                rates |= set(map(float, table.get("rates") or table.get("grid") or ()))
        for group in self.tuning.get("groups") or ():
            if _block_of(group) == block:
                rates |= {float(trial["lr"]) for trial in group.get("tried") or ()}
        return sorted(rates)

    def _correct(
        self,
        block: Block,
        metric: str,
        units: Iterable[str],
    ) -> dict[str, dict[Any, dict[int, np.ndarray]]]:
        """Return right or wrong per test example by unit, learning rate and seed."""
        correct: dict[str, dict[Any, dict[int, np.ndarray]]] = {}
        for unit in units:
            for run in self.by_block[block][unit]:
                bits = run.correct(metric) if run.status == "finished" else None
                if bits is not None:
                    by_rate = correct.setdefault(unit, {})
                    by_rate.setdefault(run.lr, {})[run.seed] = bits
        return correct


def _run(cell: Mapping[str, Any], record: Mapping[str, Any], damaged: bool) -> PlannedRun:
    """Return a planned run together with its record.

    A cell of an older version has no rate and no role: its configuration has the rate.
    """
    config = cell.get("config") or {}
    rate = cell.get("lr", record.get("lr"))
    if rate is None:
        optimiser = (config.get("recipe") or {}).get("optimiser") or {}
        rate = optimiser.get("lr")
    return PlannedRun(
        key=str(cell["key"]),
        unit=str(cell["unit"]),
        block=_block_of(cell),
        seed=int(cell["seed"]),
        lr=float(rate) if isinstance(rate, int | float) else None,
        role=str(cell.get("role") or record.get("role") or "final"),
        config=config,
        record=record,
        damaged=damaged,
    )


def _plain_record(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a record whose metrics are plain values; one from a file has no others."""
    metrics = record.get("metrics")
    if isinstance(metrics, Mapping) and plain(metrics) != metrics:
        return {**record, "metrics": plain(metrics)}
    return record


def _higher(metric: str) -> bool:
    """Return whether larger values of a metric with a usual name are better."""
    return metric_mode(metric) == "max"


def _block_of(labels: Mapping[str, Any]) -> Block:
    """Return the block of a cell, record or group."""
    return str(labels["backbone"]), str(labels["data"]), str(labels["recipe"])


def _counted_costs(runs: Sequence[PlannedRun], group: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the mean of each counted cost over finished final runs; without any, the group's."""
    costs: dict[str, float | None] = {}
    for name in COUNTED:
        numbers = []
        for run in _finished_finals(runs):
            value = run.record.get(name)
            if isinstance(value, int | float) and math.isfinite(value):
                numbers.append(value)
        costs[name] = mean(numbers) if numbers else group.get(name)
    return costs


def _comparable_times(units: Mapping[str, Sequence[PlannedRun]]) -> dict[str, list[float]]:
    """Return the seconds of the finished final runs of each unit, all on one kind of machine.

    A run counts if every unit that has times has some in the same environment (``MACHINE``). If
    there are several such environments, the one with the most runs is taken. If there is none, no
    times are returned, because they cannot be compared.
    """
    by_machine: dict[tuple[str, ...], dict[str, list[Mapping[str, Any]]]] = {}
    timed = set()
    for unit, runs in units.items():
        for run in _finished_finals(runs):
            if _is_time(run.record.get("seconds")):
                timed.add(unit)
                machine = _machine_of(run.record)
                by_machine.setdefault(machine, {}).setdefault(unit, []).append(run.record)
    shared = [records for records in by_machine.values() if len(records) == len(timed)]
    most = max(shared, key=lambda records: sum(map(len, records.values())), default={})
    measure = "seconds"
    if all(_has_processor_time(record) for records in most.values() for record in records):
        measure = "process_seconds"
    times = {}
    for unit in units:
        times[unit] = [float(record[measure]) for record in most.get(unit, ())]
    return times


def _machine_of(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the kind of machine of a run; the same for all runs that do not say."""
    known = _environment(record)
    kind = {name: str(known.get(name)) for name in MACHINE}
    return tuple((kind | {"device": GPU_NUMBER.sub("", kind["device"])}).values())


def _environment(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a run says about its machine; nothing if it says nothing."""
    environment = record.get("environment")
    return environment if isinstance(environment, Mapping) else {}


def _has_processor_time(record: Mapping[str, Any]) -> bool:
    """Return whether processor time is the time of the whole run: one thread, no interruption."""
    known = _environment(record)
    in_one = known.get("threads") == 1 and known.get("processes", 1) == 1
    on_cpu = str(record.get("device", "cpu")).startswith("cpu") and record.get("starts") == 1
    return in_one and on_cpu and _is_time(record.get("process_seconds"))


def _is_time(value: Any) -> bool:
    """Return whether a value is a number of seconds."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value > 0


def _finished_finals(runs: Sequence[PlannedRun]) -> list[PlannedRun]:
    """Return the finished runs at the chosen learning rate."""
    return [run for run in runs if run.status == "finished" and run.role == "final"]


def _ratio(value: float | None, base: float | None) -> float | None:
    """Return the ratio to the baseline; None if either is unknown."""
    return value / base if value is not None and base else None


def _differs(name: str, ratio: float | None) -> bool:
    """Return whether a cost differs from the baseline's by more than noise."""
    return ratio is not None and abs(ratio - 1) > (TIME_NOISE if name == "seconds" else EQUAL)
