"""A study run to its end, or gone on with.

One driver, many workers, and files that say how far it is.

Note [Running twice]. What is done is told by the cells' own records and by nothing else, so a study
that was killed goes on with what is missing, a finished one does nothing, and a changed line runs
only what changed.
"""

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from gatewise.data import load
from gatewise.errors import ArgumentError, FileError, unknown_name
from gatewise.studies.engine.cells import Cell, Group, cells_of, make_groups, with_costs
from gatewise.studies.engine.config import Study
from gatewise.studies.engine.costs import Cost
from gatewise.studies.engine.events import Event, Tell
from gatewise.studies.engine.folder import CELLS, TUNING, StudyFolder
from gatewise.studies.engine.local import Here, Local
from gatewise.studies.engine.result import StudyResult, read_study
from gatewise.studies.engine.run_cell import Task
from gatewise.studies.engine.tuning import choose, trials
from gatewise.train import Pace, StopSignal, environment

ENDS = ("finished", "diverged", "failed")
PLACES = ("local", "here", "ray", "ray://HOST:PORT")


class Executor(Protocol):
    """Where cells are carried out."""

    def run(self, tasks: Sequence[Task], tell: Tell, stop: StopSignal) -> None:
        """Carry out all tasks, or stop when asked to; ``tell`` is told what happens."""
        ...


@dataclass
class Tally:
    """How far a study is."""

    total: int
    done: int = 0  # finished or diverged
    failed: int = 0
    running: int = 0
    begun: float = field(default_factory=time.monotonic)
    ended_now: int = 0  # by this driver
    stage: str = "cells"  # or "tuning"

    @classmethod
    def of(cls, records: Collection[Mapping[str, Any] | None], stage: str = "cells") -> "Tally":
        """Of cells that have these records, None for those to be run."""
        ended = [record["status"] for record in records if record is not None]
        failed = ended.count("failed")
        return cls(len(records), done=len(ended) - failed, failed=failed, stage=stage)

    @property
    def waiting(self) -> int:
        """Cells that nobody has begun."""
        return self.total - self.done - self.failed - self.running

    @property
    def rate(self) -> float:
        """Cells a second, of this driver."""
        return self.ended_now / max(1e-9, time.monotonic() - self.begun)

    @property
    def seconds_left(self) -> float | None:
        """At that rate; None until there is one."""
        return (self.total - self.done - self.failed) / self.rate if self.ended_now else None

    def count(self, event: Event) -> None:
        """Take in what happened."""
        if not self.ended_now and not self.running:
            self.begun = (
                time.monotonic()
            )  # the time that workers take to start says nothing about cells
        self.running += 1 if event.kind == "started" else 0 if event.worker == "driver" else -1
        self.ended_now += event.kind in ENDS
        self.done += event.kind in ("finished", "diverged")
        self.failed += event.kind == "failed"


Watch = Callable[[Tally, Event | None], None]


@dataclass(frozen=True)
class How:
    """How a study is carried out, without a say in what it finds.

    ``on``: ``"local"`` for processes on this machine, ``"here"`` for this process alone, ``"ray"``
    or ``"ray://HOST:PORT"`` for a cluster. ``workers``: cells at once, 0 for as many as there are
    cores. ``threads`` of torch for each: 0 for what the study was begun with, or an equal share of
    the cores; last bits depend on it. ``tries``: how often a cell is begun whose worker is lost,
    before that is its result. ``retry_failed``: run failed cells again. ``data_folder``: where data
    sets are, if not in GATEWISE_DATA.
    """

    on: str = "local"
    workers: int = 0
    threads: int = 0
    tries: int = 3
    retry_failed: bool = False
    data_folder: str | None = None
    pace: Pace = field(default_factory=Pace)


def run_study(
    study: Study,
    out: str | Path,
    how: How | None = None,
    *,
    watch: Watch | None = None,
    stop: StopSignal | None = None,
) -> StudyResult | None:
    """Run what is missing of ``study`` in the folder ``out``.

    None if stopped before the end, to be gone on with.

    What cannot work is refused before anything runs or is written. ``watch`` is called whenever
    something happens.
    """
    return Driver(
        study, StudyFolder(out), check_how(how or How()), watch or (lambda *_: None), stop
    ).run()


class Driver:
    """The one process that decides what is run."""

    def __init__(
        self, study: Study, folder: StudyFolder, how: How, watch: Watch, stop: StopSignal | None
    ) -> None:
        self.study, self.folder, self.how, self.watch = study, folder, how, watch
        self.stop = stop or StopSignal()

    def run(self) -> StudyResult | None:
        """All of it; None if stopped."""
        before = self.folder.check(self.study.table.name) or {}
        self.groups = make_groups(self.study, data_folder=self.how.data_folder)
        cells_of(self.groups, self.study.table.seeds)  # refuses what is there twice
        with self.folder.claimed(), self.stop.listening():
            before = self.folder.check(self.study.table.name) or before
            self.threads = self.how.threads or before.get("threads") or self._share()
            self.costs = _costs_in(before.get("groups", []))
            examples = self._load_data()
            tuned = self._tuned(examples, before)
            if tuned is None:
                return None
            cells = cells_of(self.groups, self.study.table.seeds)
            self.groups = with_costs(self.groups, self.costs)
            self.folder.write(self._content(cells, tuned))
            over = self._execute(cells, CELLS)
        return read_study(self.folder.path) if over else None

    def _load_data(self) -> dict[str, int]:
        """How large each training set is.

        Data that are missing or wrong are an error before anything runs.
        """
        self.data, sizes = {}, {}
        for choice in self.study.table.data:
            try:
                made = load(choice.name, folder=self.how.data_folder, **choice.options)
            except FileError as problem:
                raise ArgumentError(f"data: {choice.name} cannot be had: {problem}") from problem
            self.data[choice.label] = made.digest
            sizes[choice.label] = len(made.train)
        return sizes

    def _tuned(
        self, examples: dict[str, int], before: dict[str, Any]
    ) -> list[dict[str, Any]] | None:
        """Rates chosen for all groups, which have them from here on; an account of it.

        None if stopped.
        """
        if self.study.table.tune is None:
            return []
        found = trials(self.groups, self.study.table.tune, examples)
        cells = [cell for trial in found for cell in trial.cells]
        if not before:
            self.folder.write(self._content([], []))
        if not self._execute(cells, TUNING):
            return None
        self.groups, account = choose(
            found, {cell.key: self.folder.record(cell.key, TUNING) or {} for cell in cells}
        )
        return account

    def _execute(self, cells: Sequence[Cell], below: str) -> bool:
        """Carry out the cells that have no record; False if stopped before all have one."""
        again = self.how.retry_failed and below == CELLS
        records = self.folder.outcomes(
            [cell.key for cell in cells], below=below, retry_failed=again
        )
        tally = Tally.of(records.values(), stage=below)
        costs = {group.place: group.cost.to_dict() if group.cost else {} for group in self.groups}
        tasks = [
            Task(
                cell.to_dict(),
                str((self.folder.path / below).resolve()),
                costs[cell.place],
                asdict(self.how.pace),
                self.how.data_folder,
            )
            for cell in cells
            if records[cell.key] is None
        ]
        self.watch(tally, None)
        if tasks and not self.stop.asked:
            self.folder.note(
                "began", stage=below, waiting=len(tasks), total=len(cells), workers=self._workers()
            )
            make_executor(self.how, self._workers(), self.threads).run(
                tasks, self._teller(tally), self.stop
            )
        return all(self.folder.record(cell.key, below) for cell in cells)

    def _teller(self, tally: Tally) -> Tell:
        def tell(event: Event) -> None:
            tally.count(event)
            what = {
                key: value
                for key, value in asdict(event).items()
                if key != "kind" and value is not None
            }
            self.folder.note(event.kind, **what)
            self.watch(tally, event)

        return tell

    def _content(self, cells: Sequence[Cell], tuned: list[dict[str, Any]]) -> dict[str, Any]:
        """What ``study.json`` says."""
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

    def _workers(self) -> int:
        return self.how.workers or cores()

    def _share(self) -> int:
        """Threads of each worker; fewer where the environment asks for fewer."""
        asked = os.environ.get("OMP_NUM_THREADS", "")
        most = int(asked) if asked.isdecimal() and int(asked) else cores()
        return max(1, min(most, cores() // self._workers()))


def make_executor(how: How, workers: int, threads: int) -> Executor:
    """Where ``how.on`` says."""
    if how.on == "local":
        return Local(workers, threads, tries=how.tries)
    if how.on == "here":
        return Here()
    from gatewise.studies.engine.on_ray import OnRay

    return OnRay(how.on, workers if how.workers else 0, threads, tries=how.tries)


def check_how(how: How) -> How:
    """``how`` if it is possible."""
    if how.on not in ("local", "here", "ray") and not how.on.startswith("ray://"):
        raise unknown_name("place to run on", how.on, PLACES)
    for name, least, most in (("workers", 0, 1024), ("threads", 0, 1024), ("tries", 1, 1_000_000)):
        value = getattr(how, name)
        if type(value) is not int or not least <= value <= most:
            raise ArgumentError(f"{name} is not allowed", got=value, allowed=f"{least} to {most}")
    return how


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def group_contents(groups: Sequence[Group], baseline: str) -> list[dict[str, Any]]:
    """Each group with its costs, and which of them are not the baseline's in the same block."""
    costs = {group.place: group.cost.to_dict() if group.cost else {} for group in groups}
    base = {
        group.place.block: costs[group.place] for group in groups if group.place.unit == baseline
    }
    return [
        {
            **vars(group.place),
            "config_sha256": group.config.digest,
            "matched": dict(group.matched),
            **costs[group.place],
            "unequal": [
                name
                for name, cost in costs[group.place].items()
                if cost != base[group.place.block].get(name)
            ],
        }
        for group in groups
    ]


def _costs_in(groups: Sequence[dict[str, Any]]) -> dict[str, Cost]:
    """Costs that were counted before, by the digest of the configuration."""
    return {
        each["config_sha256"]: Cost(each["parameters"], each["flops"], each["saved_bytes"])
        for each in groups
        if "parameters" in each
    }
