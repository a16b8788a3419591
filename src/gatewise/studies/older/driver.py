"""Run a study to its end, or resume it: plan, tune rates, count costs, run cells, confirm.

Note [Running twice]. Only the cells' own records decide what is done. A study that was killed
resumes with the cells that have no record, a finished study does nothing, and a changed line runs
only what changed.
"""

import time
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gatewise.data import load
from gatewise.devices import check_bfloat16, find_device
from gatewise.errors import ArgumentError, FileError
from gatewise.studies.older.cell_work import Task
from gatewise.studies.older.cells import (
    TRIAL,
    Cell,
    Group,
    LeftOut,
    StudyPlan,
    cells_of,
    examples_of,
    plan_study,
    with_costs,
)
from gatewise.studies.older.config import Study
from gatewise.studies.older.costs import Cost, RunCounts, RunTimes, TimeEstimate
from gatewise.studies.older.executors import Event, Executor
from gatewise.studies.older.folder import CELLS, TUNING, StudyFolder
from gatewise.studies.older.result import StudyResult, read_study
from gatewise.studies.older.runner import (
    ENDS,
    CellRunner,
    RunOptions,
    StudyProgress,
    Watch,
    thread_share,
)
from gatewise.studies.older.tuning import RateSearch
from gatewise.train import StopSignal, environment, seconds_per_run

CONFIRMATION = "confirmation"


def run_study(
    study: Study,
    out: str | Path,
    options: RunOptions | None = None,
    *,
    watch: Watch | None = None,
    stop: StopSignal | None = None,
) -> StudyResult | None:
    """Run the cells of ``study`` that have no record in the folder ``out``.

    Args:
        study: what to run. What cannot work is refused before anything is run or written.
        out: the folder. If interrupted, the same call resumes.
        options: how to run.
        watch: called with the progress whenever something happens.
        stop: ends the run early if a stop is asked for.

    Returns:
        The results; None if stopped before the end.
    """
    return Driver(
        study,
        StudyFolder(out),
        options or RunOptions(),
        watch,
        stop or StopSignal(),
    ).run()


@dataclass(frozen=True)
class Rehearsal:
    """What a study would run, and about how long that would take."""

    planned: RunCounts
    estimate: TimeEstimate
    left_out: tuple[LeftOut, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "planned": self.planned.to_dict(),
            "estimate": self.estimate.to_dict(),
            "left_out": [left.to_dict() for left in self.left_out],
        }


def rehearse(study: Study, options: RunOptions | None = None) -> Rehearsal:
    """Check a study, count its runs and time three steps of each unit; nothing is written.

    Args:
        study: what would be run.
        options: how it would be run.

    Raises:
        ArgumentError: if the study cannot work.
    """
    options = options or RunOptions()
    table = study.table
    plan = plan_study(study, data_folder=options.data_folder)
    cells_of(plan.groups, table.seeds[:1])  # refuses two places that are the same run
    search = RateSearch(plan.groups, table.tune, seeds=table.seeds)
    planned, times = plan_runs(search, study, options.worker_count)
    for group in plan.groups:
        facts = group.facts
        seconds = seconds_per_run(
            group.config,
            classes=facts.classes,
            shape=facts.shape,
            examples=examples_of(group.config, options.data_folder),
            threads=options.threads or thread_share(options),
        )
        times.measured(group.place, seconds)
    estimate = times.estimate()
    assert estimate is not None  # noqa: S101  every group was timed
    return Rehearsal(planned, estimate, tuple(plan.left_out))


class Driver:
    """The one process that decides what is run.

    Args:
        study: what to run.
        folder: where.
        options: how.
        watch: called with the progress whenever something happens.
        stop: ends the run early if a stop is asked for.
        executor: where to run, if not where ``options`` say.
    """

    def __init__(
        self,
        study: Study,
        folder: StudyFolder,
        options: RunOptions,
        watch: Watch | None,
        stop: StopSignal,
        executor: Executor | None = None,
    ) -> None:
        self.study = study
        self.folder = folder
        self.options = options
        self.stop = stop
        self.watch = watch
        self.cells: dict[str, Cell] = {}  # all that were run or looked at, by key
        self.begun: dict[str, float] = {}  # when cells that run now were started
        self.events = 0  # since the last estimate
        self.estimate: TimeEstimate | None = None
        self.runner = CellRunner(folder, options, stop, self._watch, executor)

    def run(self) -> StudyResult | None:
        """Run everything that is missing; None if stopped."""
        table = self.study.table
        before = self.folder.check(table.name) or {}
        plan = self._plan()
        self.groups = plan.groups
        self.left_out = [left.to_dict() for left in plan.left_out]
        cells_of(self.groups, table.seeds[:1])  # refuses two places that are the same run
        self._check_precision()
        with self.folder.claimed(shard=self.options.shard), self.stop.listening(), self.runner:
            # Another driver may have written the study since the first look.
            before = self.folder.check(table.name) or before
            self.threads = self.folder.agree("threads", self._thread_count(before))
            self.search = self._search(self._load_data())
            self.planned, self.times = plan_runs(self.search, self.study, self.options.worker_count)
            if self.folder.find() is None:
                self.folder.write(self._content([]))
            if not self._tune():
                return None
            self.groups = self._costed(self.search.tuned_groups(), before)
            finished = self._run_final()
        return read_study(self.folder.path) if finished else None

    def _check_precision(self) -> None:
        """Raise if every run would end by computing in bfloat16 on this machine."""
        precisions = {group.config.recipe.precision for group in self.groups}
        if "bfloat16" in precisions and self.options.on in ("local", "here"):
            check_bfloat16(find_device(self.options.device))

    def _plan(self) -> StudyPlan:
        """Return the groups of the study, each tried out."""
        return plan_study(self.study, data_folder=self.options.data_folder)

    def _thread_count(self, before: dict[str, Any]) -> int:
        """Return the threads of each cell; ``before`` is what an earlier driver wrote."""
        return self.options.threads or before.get("threads") or thread_share(self.options)

    def _costed(self, groups: Sequence[Group], before: dict[str, Any]) -> list[Group]:
        """Return the groups with their costs; ``before`` may hold some of them."""
        return with_costs(groups, _known_costs(before.get("groups", [])))

    def _search(self, examples: dict[str, int]) -> RateSearch:
        """Return the search for learning rates."""
        table = self.study.table
        return RateSearch(
            self.groups,
            table.tune,
            seeds=table.seeds,
            metric=table.metric,
            higher_is_better=table.higher_is_better,
            examples=examples,
        )

    def _load_data(self) -> dict[str, int]:
        """Return the size of each training set; missing or damaged data are an error here."""
        self.data: dict[str, str] = {}
        sizes: dict[str, int] = {}
        for choice in self.study.table.data:
            try:
                data = load(choice.name, folder=self.options.data_folder, **choice.options)
            except FileError as problem:
                raise ArgumentError(f"data: {choice.name} cannot be loaded: {problem}") from problem
            self.data[choice.label] = data.digest
            sizes[choice.label] = len(data.train)
        return sizes

    def _tune(self) -> bool:
        """Run until every group has a learning rate; False if stopped."""
        while cells := self.search.batch():
            if not self._execute(cells, TUNING):
                return False
            self.search.take(self._records(cells, TUNING))
        return True

    def _run_final(self) -> bool:
        """Run the final cells, then what confirms their differences; False if stopped."""
        table = self.study.table
        cells = cells_of(self.groups, table.seeds)
        added = cells
        stage = CELLS
        while added:
            statuses = self.folder.statuses([cell.key for cell in added])
            if len(statuses) < len(added):
                self.folder.write(self._content(cells))
            if not self._execute(added, CELLS, stage):
                return False
            added = self._confirmations(cells)
            cells = cells + added
            stage = CONFIRMATION
        self.folder.write(self._content(cells))
        return True

    def _confirmations(self, cells: Sequence[Cell]) -> list[Cell]:
        """Return cells at neighbouring rates that a verdict needs and that are not among these."""
        if not self.search.blocks:
            return []
        table = self.study.table
        wanted = self.search.confirmations(
            list(self._records(cells, CELLS).values()),
            baseline=table.baseline,
            metric=table.metric,
            margin=table.margin,
        )
        present = {cell.key for cell in cells}
        confirming = self.search.cells_at(wanted, table.seeds)
        return [cell for cell in confirming if cell.key not in present]

    def _records(self, cells: Iterable[Cell], below: str) -> dict[str, dict[str, Any]]:
        """Return the records of cells that have one, by key."""
        by_key = {cell.key: cell for cell in cells}
        records = {}
        for key, record in self.folder.records(by_key, below).readable.items():
            # Records of older versions do not say the learning rate.
            records[key] = {"lr": by_key[key].lr, **record}
        return records

    def _execute(self, cells: Sequence[Cell], below: str, stage: str | None = None) -> bool:
        """Run the cells that have no record; False if stopped before all have one."""
        costs = {group.place: group.cost for group in self.groups}
        tasks = []
        for cell in cells:
            self.cells[cell.key] = cell
            cost = costs[cell.place]
            task = Task(
                cell=cell.to_dict(),
                folder=str((self.folder.path / below).resolve()),
                cost=cost.to_dict() if cost else {},
                pace=self.options.pace.model_dump(),
                data_folder=self.options.data_folder,
                device=self.options.device,
            )
            tasks.append(task)
        self._count_earlier(cells, below)
        return self.runner.run(tasks, self.threads, below, stage)

    def _count_earlier(self, cells: Sequence[Cell], below: str) -> None:
        """Take in the runs of an earlier driver, and the time that one of each group took."""
        by_key = {cell.key: cell for cell in cells}
        for key, status in self.folder.statuses(by_key, below).items():
            cell = by_key[key]
            tuning = cell.role == TRIAL
            self.times.count(cell.place, tuning=tuning)
            if status == "finished" and cell.place not in self.times.seconds:
                record = self.folder.record(key, below) or {}
                seconds = record.get("process_seconds") or 0.0
                self.times.measured(cell.place, seconds, tuning=tuning)

    def _watch(self, progress: StudyProgress, event: Event | None) -> None:
        """Add what is planned and the estimated time to a progress report, and pass it on."""
        if event is not None and event.kind == "started":
            self.begun[event.key] = time.monotonic()
        elif event is not None and event.kind in ENDS:
            cell = self.cells[event.key]
            tuning = cell.role == TRIAL
            self.times.count(cell.place, tuning=tuning)
            begun = self.begun.pop(event.key, None)
            if event.kind == "finished" and begun is not None:
                self.times.measured(cell.place, time.monotonic() - begun, tuning=tuning)
        progress.planned = self.planned
        self.events += 1
        # An estimate asks every group, so there is one for about as many events as groups.
        if event is None or self.estimate is None or self.events >= len(self.groups) // 8:
            self.events = 0
            self.estimate = self.times.estimate()
        progress.estimate = self.estimate
        if self.watch is not None:
            self.watch(progress, event)

    def _content(self, cells: Sequence[Cell]) -> dict[str, Any]:
        """Return the content of ``study.json``."""
        table = self.study.table
        return {
            "name": table.name,
            "title": table.title,
            "study": self.study.plain,
            "gatewise": environment()["gatewise"],
            "baseline": table.baseline,
            "metric": table.metric,
            "mode": "max" if table.higher_is_better else "min",
            "margin": table.margin,
            "match": table.match,
            "threads": self.threads,
            "device": self.options.device,
            "data_sha256": self.data,
            "tuning": self.search.account(),
            "left_out": self.left_out,
            "groups": group_contents(self.groups, table.baseline),
            "cells": [cell.to_dict() for cell in cells],
        }


def plan_runs(search: RateSearch, study: Study, workers: int) -> tuple[RunCounts, RunTimes]:
    """Return how many runs a study has, and what estimates their time.

    Args:
        search: of the study's learning rates.
        study: what is run.
        workers: runs at once.
    """
    seeds = len(study.table.seeds)
    baseline = study.table.baseline
    runs: dict[Hashable, RunCounts] = {}
    shares: dict[Hashable, float] = {}
    for group in search.groups:
        place = group.place
        shares[place] = search.tuning_share(group)
        tuned = place.block in search.blocks
        # At worst every unit is lower and its neighbours are run; of the baseline, only if fewer.
        confirms = tuned and (place.unit != baseline or search.tune.mode == "full")
        runs[place] = RunCounts(
            tuning=search.runs_of(place),
            final=seeds,
            confirmation=2 * seeds if confirms else 0,
        )
    counts = runs.values()
    whole = RunCounts(
        tuning=sum(one.tuning for one in counts),
        final=sum(one.final for one in counts),
        confirmation=sum(one.confirmation for one in counts),
    )
    return whole, RunTimes(runs, seeds, workers, shares)


def group_contents(groups: Sequence[Group], baseline: str) -> list[dict[str, Any]]:
    """Return each group with its costs.

    Args:
        groups: of the study.
        baseline: label of the unit that the others are compared with.

    Returns:
        Plain values. ``unequal`` names the costs that differ from the baseline's in the same
        block.
    """
    costs: dict[Any, dict[str, Any]] = {}
    base: dict[Any, dict[str, Any]] = {}
    for group in groups:
        costs[group.place] = group.cost.to_dict() if group.cost else {}
        if group.place.unit == baseline:
            base[group.place.block] = costs[group.place]
    contents = []
    for group in groups:
        cost = costs[group.place]
        reference = base[group.place.block]
        content = {
            **vars(group.place),
            "config_sha256": group.config.digest,
            "matched": dict(group.matched),
            **cost,
            "unequal": [name for name, value in cost.items() if value != reference.get(name)],
        }
        contents.append(content)
    return contents


def _known_costs(groups: Sequence[dict[str, Any]]) -> dict[str, Cost]:
    """Return the costs that were counted before, by the digest of the configuration."""
    costs: dict[str, Cost] = {}
    for group in groups:
        if "parameters" in group:
            cost = Cost(group["parameters"], group["flops"], group["saved_bytes"])
            costs[group["config_sha256"]] = cost
    return costs
