"""Run the missing cells of a study folder: options, progress, and the choice of executor."""

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from pydantic import Field

from gatewise.errors import ArgumentError, DamagedFileError, LostProcessError, unknown_name
from gatewise.studies.older.cell_work import Task
from gatewise.studies.older.costs import RunCounts, TimeEstimate
from gatewise.studies.older.executors import POLL_SECONDS, RERUN, Event, Executor, InProcess, Local
from gatewise.studies.older.folder import CELLS, DAMAGED, StudyFolder
from gatewise.train import CheckedOptions, Pace, StopSignal, find_device

ENDS = ("finished", "diverged", "failed")
PLACES = ("local", "here", "ray", "ray:ADDRESS", "ray://HOST:PORT")
# Between two looks at what other drivers have done: the first, and the longest if nothing happens.
LOOK_SECONDS = 1.0
LONGEST_LOOK_SECONDS = 30.0
MOST_SHARDS = 100_000
SUMMARY = 200  # events between two summaries in the journal, so that nobody reads all of it


class RunOptions(CheckedOptions):
    """How a study is run. Nothing here changes what the study measures.

    Args:
        on: ``"local"`` for processes on this machine, ``"here"`` for this process alone,
            ``"ray"`` for a Ray cluster of this machine (or the one in RAY_ADDRESS),
            ``"ray:HOST:PORT"`` to join a cluster from one of its machines, ``"ray://HOST:PORT"``
            for Ray's client protocol.
        workers: cells at once; 0 for as many as there are cores, or as ``gpus_per_cell`` allows.
        threads: of torch for each cell; 0 for what the study was started with, or an equal share
            of the cores. The last bits of results depend on it.
        gpus_per_cell: graphics processors that a cell has for itself; 0.5 if two share one.
        device: where a cell is trained: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"`` or
            ``"auto"``. Results on different devices differ in their last bits or more.
        shard: ``"i/n"`` if this is one of n calls that work in the same folder, on one machine or
            many. Every call runs what no other has claimed, and waits for the others where the
            study needs all results. The shard only says with which cells the call begins.
        tries: how often a cell is started whose worker is lost.
        retry_failed: whether to run failed cells again.
        data_folder: where data sets are, if not in GATEWISE_DATA.
        pace: how often checkpoints are written.
    """

    on: str = "local"
    workers: Annotated[int, Field(ge=0, le=1024)] = 0
    threads: Annotated[int, Field(ge=0, le=1024)] = 0
    gpus_per_cell: Annotated[float, Field(ge=0, le=1024)] = 0.0
    device: Annotated[str, Field(max_length=20)] = "cpu"
    shard: str | None = None
    tries: Annotated[int, Field(ge=1, le=1_000_000)] = 3
    retry_failed: bool = False
    data_folder: str | None = None
    pace: Pace = Field(default_factory=Pace)

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        if self.on not in ("local", "here", "ray") and not self.on.startswith("ray:"):
            raise unknown_name("place to run on", self.on, PLACES)
        if self.shard is not None:
            shard_of(self.shard)
        if self.on in ("local", "here"):  # elsewhere there are other devices
            find_device(self.device)

    @property
    def worker_count(self) -> int:
        """Cells at once."""
        if self.on == "here":
            return 1
        return self.workers or cores()


def shard_of(text: str) -> tuple[int, int]:
    """Return which shard of how many ``i/n`` says; i may count from 0 or from 1.

    Raises:
        ArgumentError: if it is not of that form.
    """
    first, _, second = text.partition("/")
    if first.isdecimal() and second.isdecimal() and 0 <= int(first) <= int(second) <= MOST_SHARDS:
        if int(second):
            return int(first) % int(second), int(second)
    raise ArgumentError(
        "shard is not allowed",
        got=text,
        allowed=f"i/n with i from 0 to n, and n from 1 to {MOST_SHARDS}, such as 3/16",
    )


@dataclass
class StudyProgress:
    """How many cells of a study are done, and how fast."""

    total: int
    done: int = 0  # finished or diverged
    failed: int = 0
    running: int = 0
    begun: float = field(default_factory=time.monotonic)
    ended_now: int = 0  # by this driver
    stage: str = "cells"  # or "tuning", "confirmation"
    planned: RunCounts | None = None  # runs of the whole study, if it was planned
    estimate: TimeEstimate | None = None  # for the whole study, once each unit has a finished run

    @property
    def waiting(self) -> int:
        """Cells that have not started."""
        return self.total - self.done - self.failed - self.running

    @property
    def rate(self) -> float:
        """Cells per second, of this driver."""
        return self.ended_now / max(1e-9, time.monotonic() - self.begun)

    @property
    def seconds_left(self) -> float | None:
        """Seconds left at that rate; None until a cell has ended."""
        if self.ended_now:
            return (self.total - self.done - self.failed) / self.rate
        return None

    def count(self, event: Event) -> None:
        """Take in what happened."""
        if not self.ended_now and not self.running:
            # The time that workers take to start says nothing about cells.
            self.begun = time.monotonic()
        if event.kind == "started":
            self.running += 1
        elif event.worker != "driver":
            self.running -= 1
        self.ended_now += event.kind in ENDS
        self.add(event.kind)

    def add(self, status: str) -> None:
        """Count a cell that has ended."""
        self.done += status in ("finished", "diverged")
        self.failed += status == "failed"


Watch = Callable[[StudyProgress, Event | None], None]


class CellRunner:
    """Runs cells of one study folder, notes what happens in its journal, and reports progress.

    In a ``with`` block, worker processes and clusters are kept from one run to the next.

    Args:
        folder: of the study; the caller holds it (:meth:`StudyFolder.claimed`).
        options: how to run.
        stop: ends the run early if a stop is asked for.
        watch: called with the progress whenever something happens.
        executor: where to run, if not where ``options.on`` says.
    """

    def __init__(
        self,
        folder: StudyFolder,
        options: RunOptions,
        stop: StopSignal,
        watch: Watch | None = None,
        executor: Executor | None = None,
    ) -> None:
        self.folder = folder
        self.options = options
        self.stop = stop
        self.watch = watch or (lambda *_: None)
        self.executor = executor
        self.executors: dict[int, Executor] = {}  # by the threads of a cell
        self.keeps_executors = False
        self.retried: set[str] = set()

    def __enter__(self) -> "CellRunner":
        self.keeps_executors = True
        return self

    def __exit__(self, *problem: object) -> None:
        self.keeps_executors = False
        self._close()

    def run(
        self,
        tasks: Sequence[Task],
        threads: int,
        below: str = CELLS,
        stage: str | None = None,
    ) -> bool:
        """Run the tasks that have no record yet.

        Args:
            tasks: all cells of the stage.
            threads: of torch for each cell.
            below: the sub-folder of the study that the cells are in.
            stage: its name in progress reports, if not that of the sub-folder.

        Returns:
            Whether every cell has a record; False if stopped before that.

        Raises:
            LostProcessError: if cells were lost too often, or the cluster was. What is finished
                is kept.
        """
        statuses = self._statuses([task.key for task in tasks], below)
        missing = {task.key: task for task in tasks if task.key not in statuses}
        progress = StudyProgress(len(tasks), stage=stage or below)
        for status in statuses.values():
            progress.add(status)
        self.watch(progress, None)
        if not missing or self.stop.asked:
            return not missing
        work = _StageWork(self.folder, below, missing, progress, self.watch, self.stop)
        work.begin(self.options.worker_count)
        executor = self.executor or self._executor(threads)
        try:
            while missing and not self.stop.asked:
                executor.run(work.take(self.options.shard), work.on_event, self.stop)
                if missing and not self.stop.asked:
                    work.wait_for_others()
        finally:
            work.end()
            if not self.keeps_executors:
                self._close()
        return not missing

    def _statuses(self, keys: Sequence[str], stage: str) -> dict[str, str]:
        """Return the status of every cell that need not run."""
        statuses = self.folder.statuses(keys, stage)
        # Once, and not if another driver may have run them again.
        retry = self.options.retry_failed and stage == CELLS and self.folder.alone
        for key, status in list(statuses.items()):
            if status == DAMAGED:
                self.folder.set_aside(key, stage)
                del statuses[key]
            elif retry and status == "failed" and key not in self.retried:
                self.folder.remove_record(key, stage)
                self.retried.add(key)
                del statuses[key]
        return statuses

    def _executor(self, threads: int) -> Executor:
        """Return the executor for cells with so many threads."""
        if threads not in self.executors:
            self.executors[threads] = make_executor(self.options, threads)
        return self.executors[threads]

    def _close(self) -> None:
        """End what executors keep."""
        while self.executors:
            self.executors.popitem()[1].close()


class _StageWork:
    """The cells of one stage that have no record, and what this driver does about them.

    Args:
        folder: of the study.
        stage: the sub-folder of the cells.
        missing: the cells without a record, by key. Those that end are removed.
        progress: of the stage.
        watch: called with the progress whenever something happens.
        stop: ends waiting early if a stop is asked for.
    """

    def __init__(
        self,
        folder: StudyFolder,
        stage: str,
        missing: dict[str, Task],
        progress: StudyProgress,
        watch: Watch,
        stop: StopSignal,
    ) -> None:
        self.stop = stop
        self.pause = LOOK_SECONDS
        self.folder = folder
        self.stage = stage
        self.missing = missing
        self.progress = progress
        self.watch = watch
        self.claims = folder.claims(stage)
        self.claimed: set[str] = set()
        self.running: dict[str, float] = {}  # key to the time of its start
        self.began = round(time.time(), 3)
        self.events = 0

    def begin(self, workers: int) -> None:
        """Note that this driver begins."""
        self.workers = workers
        self.folder.note("began", **self._summary())

    def take(self, shard: str | None) -> Iterator[Task]:
        """Yield the cells to run, those of the shard first; with claims, only what is free."""
        keys = list(self.missing)
        if shard is not None:
            number, count = shard_of(shard)
            keys = keys[number::count] + [k for i, k in enumerate(keys) if i % count != number]
        for key in keys:
            if self._is_free(key):
                yield self.missing[key]

    def on_event(self, event: Event) -> None:
        """Count, note and pass on an event."""
        self.progress.count(event)
        fields = {k: v for k, v in asdict(event).items() if k != "kind" and v is not None}
        self.folder.note(event.kind, **fields)
        if event.kind == "started":
            self.running[event.key] = round(time.time(), 3)
        else:
            self.running.pop(event.key, None)
        if event.kind in ENDS:
            self.missing.pop(event.key, None)
            self._release(event.key)
        self.events += 1
        if self.events >= max(SUMMARY, len(self.running)):  # a summary names all that run
            self.events = 0
            self.folder.note("summary", **self._summary(), running=self.running)
        self.watch(self.progress, event)

    def wait_for_others(self) -> None:
        """Wait a moment, and take in the cells that other drivers have ended.

        Raises:
            LostProcessError: if there are no other drivers, and an executor left cells undone.
        """
        if self.claims is None:
            raise LostProcessError(
                "runs ended without a result",
                got=f"{len(self.missing)} of them",
                fix=RERUN,
            )
        before = len(self.missing)
        until = time.monotonic() + self.pause
        while time.monotonic() < until and not self.stop.asked:
            time.sleep(min(self.pause, POLL_SECONDS))
        for key in list(self.missing):
            if self.folder.has_record(key, self.stage):
                self._take_in(key)
        is_moving = len(self.missing) < before
        self.pause = LOOK_SECONDS if is_moving else min(LONGEST_LOOK_SECONDS, 1.5 * self.pause)

    def end(self) -> None:
        """Give back the claims on cells that have not ended."""
        for key in list(self.claimed):
            self._release(key)

    def _is_free(self, key: str) -> bool:
        """Return whether this driver is to run the cell, which is then claimed."""
        if key not in self.missing:
            return False
        if self.claims is None:
            return True
        if not self.claims.take(key):
            return False
        self.claimed.add(key)
        # After the claim, because its last owner may have written a record before releasing it.
        if self.folder.has_record(key, self.stage):
            self._release(key)
            self._take_in(key)
            return False
        return True

    def _take_in(self, key: str) -> None:
        """Count a cell that another driver has ended; one with a damaged record runs again."""
        try:
            record = self.folder.record(key, self.stage)
        except DamagedFileError:
            return self.folder.set_aside(key, self.stage)
        if record is not None:
            del self.missing[key]
            self.progress.add(record["status"])
            self.watch(self.progress, None)

    def _release(self, key: str) -> None:
        """Give back a claim."""
        if self.claims is not None and key in self.claimed:
            self.claimed.discard(key)
            self.claims.release(key)

    def _summary(self) -> dict[str, Any]:
        """Return what a status command needs to know of everything before."""
        return {
            "stage": self.stage,
            "waiting": len(self.missing),
            "total": self.progress.total,
            "done": self.progress.done,
            "failed": self.progress.failed,
            "workers": self.workers,
            "began": self.began,
            "ended": self.progress.ended_now,
        }


def make_executor(
    options: RunOptions,
    threads: int,
    work: Callable[[Task, StopSignal], Mapping[str, Any] | None] | None = None,
) -> Executor:
    """Return the executor that ``options.on`` names.

    Args:
        options: how to run.
        threads: of torch for each cell.
        work: what to do, if not what the task says. Worker processes of ``local`` cannot be sent
            a function, so it is called in this process there.
    """
    if options.on == "here" or (options.on == "local" and work is not None):
        return InProcess(work)
    if options.on == "local":
        gpus = gpu_shares(options.gpus_per_cell, options.workers)
        return Local(options.worker_count, threads, tries=options.tries, gpus=gpus)
    from gatewise.studies.older.on_ray import OnRay

    return OnRay(
        options.on,
        options.workers,
        threads,
        tries=options.tries,
        gpus=options.gpus_per_cell,
        work=work,
    )


def gpu_shares(per_cell: float, workers: int) -> list[str]:
    """Return for each worker process the graphics processors that it sees; none if not asked for.

    Args:
        per_cell: how many a cell has; below 1 if cells share one.
        workers: the most processes; 0 for as many as there are processors for.

    Raises:
        ArgumentError: if this machine has fewer than one cell needs.
    """
    if not per_cell:
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        names = [name.strip() for name in visible.split(",") if name.strip()]
    else:
        import torch

        names = [str(number) for number in range(torch.cuda.device_count())]
    if per_cell < 1:
        shares = [name for name in names for _ in range(int(1 / per_cell))]
    else:
        size = math.ceil(per_cell)
        starts = range(0, len(names) - size + 1, size)
        shares = [",".join(names[start : start + size]) for start in starts]
    if not shares:
        raise ArgumentError(
            "gpus_per_cell: this machine has too few graphics processors",
            got=f"{per_cell:g} for each cell, {len(names)} there",
            fix="leave the option out, or run on another machine",
        )
    return shares[:workers] if workers else shares


def thread_share(options: RunOptions) -> int:
    """Return the threads of each worker: a share of the cores, or what OMP_NUM_THREADS says."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    most = int(asked) if asked.isdecimal() and int(asked) else cores()
    return max(1, min(most, cores() // (options.workers or cores())))


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
