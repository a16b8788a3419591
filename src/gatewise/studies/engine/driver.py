"""Run a study to its end, or resume it: plan, tune learning rates, count costs, run the cells.

Note [Running twice]. Only the cells' own records decide what is done. A study that was killed
resumes with the cells that have no record, a finished study does nothing, and a changed line runs
only what changed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gatewise.data import load
from gatewise.errors import ArgumentError, FileError
from gatewise.studies.engine.cell_work import Task
from gatewise.studies.engine.cells import Cell, Group, cells_of, make_groups, with_costs
from gatewise.studies.engine.config import Study
from gatewise.studies.engine.costs import Cost
from gatewise.studies.engine.folder import CELLS, TUNING, StudyFolder
from gatewise.studies.engine.result import StudyResult, read_study
from gatewise.studies.engine.runner import (
    CellRunner,
    RunOptions,
    Watch,
    thread_share,
)
from gatewise.studies.engine.tuning import choose, trials
from gatewise.train import StopSignal, environment


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
        study, StudyFolder(out), options or RunOptions(), watch, stop or StopSignal()
    ).run()


class Driver:
    """The one process that decides what is run.

    Args:
        study: what to run.
        folder: where.
        options: how.
        watch: called with the progress whenever something happens.
        stop: ends the run early if a stop is asked for.
    """

    def __init__(
        self,
        study: Study,
        folder: StudyFolder,
        options: RunOptions,
        watch: Watch | None,
        stop: StopSignal,
    ) -> None:
        self.study = study
        self.folder = folder
        self.options = options
        self.stop = stop
        self.runner = CellRunner(folder, options, stop, watch)

    def run(self) -> StudyResult | None:
        """Run everything that is missing; None if stopped."""
        table = self.study.table
        before = self.folder.check(table.name) or {}
        self.groups = make_groups(self.study, data_folder=self.options.data_folder)
        cells_of(self.groups, table.seeds)  # refuses two places that are the same run
        with self.folder.claimed(shard=self.options.shard), self.stop.listening(), self.runner:
            # Another driver may have written the study since the first look.
            before = self.folder.check(table.name) or before
            share = thread_share(self.options)
            self.threads = self.folder.agree(
                "threads", self.options.threads or before.get("threads") or share
            )
            costs = _known_costs(before.get("groups", []))
            examples = self._load_data()
            tuned = self._tune(examples, before)
            if tuned is None:
                return None
            cells = cells_of(self.groups, table.seeds)
            self.groups = with_costs(self.groups, costs)
            self.folder.write(self._content(cells, tuned))
            finished = self._execute(cells, CELLS)
        return read_study(self.folder.path) if finished else None

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

    def _tune(
        self, examples: dict[str, int], before: dict[str, Any]
    ) -> list[dict[str, Any]] | None:
        """Choose learning rates for all groups and return what was tried; None if stopped."""
        if self.study.table.tune is None:
            return []
        plan = trials(self.groups, self.study.table.tune, examples)
        cells = [cell for trial in plan for cell in trial.cells]
        if not before:
            self.folder.write(self._content([], []))
        if not self._execute(cells, TUNING):
            return None
        records = {cell.key: self.folder.record(cell.key, TUNING) or {} for cell in cells}
        self.groups, account = choose(plan, records)
        return account

    def _execute(self, cells: Sequence[Cell], stage: str) -> bool:
        """Run the cells that have no record; False if stopped before all have one."""
        costs = {group.place: group.cost for group in self.groups}
        tasks = []
        for cell in cells:
            cost = costs[cell.place]
            task = Task(
                cell=cell.to_dict(),
                folder=str((self.folder.path / stage).resolve()),
                cost=cost.to_dict() if cost else {},
                pace=self.options.pace.model_dump(),
                data_folder=self.options.data_folder,
            )
            tasks.append(task)
        return self.runner.run(tasks, self.threads, stage)

    def _content(self, cells: Sequence[Cell], tuned: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the content of ``study.json``."""
        table = self.study.table
        return {
            "name": table.name,
            "title": table.title,
            "study": self.study.plain,
            "gatewise": environment()["gatewise"],
            "baseline": table.baseline,
            "metric": table.metric,
            "match": table.match,
            "threads": self.threads,
            "data_sha256": self.data,
            "tuned": tuned,
            "groups": group_contents(self.groups, table.baseline),
            "cells": [cell.to_dict() for cell in cells],
        }


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
