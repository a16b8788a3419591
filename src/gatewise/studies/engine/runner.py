"""Run the missing cells of a study folder: options, progress, and the choice of executor."""

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from pydantic import Field

from gatewise.errors import unknown_name
from gatewise.studies.engine.cell_work import Task
from gatewise.studies.engine.costs import RunCounts, TimeEstimate
from gatewise.studies.engine.executors import Event, Executor, InProcess, Local
from gatewise.studies.engine.folder import CELLS, StudyFolder
from gatewise.train import CheckedOptions, Pace, StopSignal

ENDS = ("finished", "diverged", "failed")
PLACES = ("local", "here", "ray", "ray://HOST:PORT")


class RunOptions(CheckedOptions):
    """How a study is run. Nothing here changes what the study measures.

    Args:
        on: ``"local"`` for processes on this machine, ``"here"`` for this process alone,
            ``"ray"`` or ``"ray://HOST:PORT"`` for a cluster.
        workers: cells at once; 0 for as many as there are cores.
        threads: of torch for each cell; 0 for what the study was started with, or an equal share
            of the cores. The last bits of results depend on it.
        tries: how often a cell is started whose worker is lost, before it counts as failed.
        retry_failed: whether to run failed cells again.
        data_folder: where data sets are, if not in GATEWISE_DATA.
        pace: how often checkpoints are written.
    """

    on: str = "local"
    workers: Annotated[int, Field(ge=0, le=1024)] = 0
    threads: Annotated[int, Field(ge=0, le=1024)] = 0
    tries: Annotated[int, Field(ge=1, le=1_000_000)] = 3
    retry_failed: bool = False
    data_folder: str | None = None
    pace: Pace = Field(default_factory=Pace)

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        if self.on not in ("local", "here", "ray") and not self.on.startswith("ray://"):
            raise unknown_name("place to run on", self.on, PLACES)

    @property
    def worker_count(self) -> int:
        """Cells at once."""
        return self.workers or cores()


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

    @classmethod
    def of(
        cls, records: Collection[Mapping[str, Any] | None], stage: str = "cells"
    ) -> "StudyProgress":
        """Return the progress of cells with these records.

        Args:
            records: one per cell; None for a cell to be run.
            stage: ``"cells"``, ``"tuning"`` or ``"confirmation"``.
        """
        statuses = [record["status"] for record in records if record is not None]
        failed = statuses.count("failed")
        return cls(len(records), done=len(statuses) - failed, failed=failed, stage=stage)

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
        return (self.total - self.done - self.failed) / self.rate if self.ended_now else None

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
        self.done += event.kind in ("finished", "diverged")
        self.failed += event.kind == "failed"


Watch = Callable[[StudyProgress, Event | None], None]


class CellRunner:
    """Runs cells of one study folder, notes what happens in its journal, and reports progress.

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
        self.keeps_workers = False

    def __enter__(self) -> "CellRunner":
        """Keep worker processes from one call of :meth:`run` to the next, until the block ends."""
        self.keeps_workers = True
        return self

    def __exit__(self, *_: object) -> None:
        """End the worker processes."""
        self.keeps_workers = False
        self._close()

    def run(
        self, tasks: Sequence[Task], threads: int, below: str = CELLS, stage: str | None = None
    ) -> bool:
        """Run the tasks that have no record yet.

        Args:
            tasks: all cells of the stage.
            threads: of torch for each cell.
            below: the sub-folder of the study that the cells are in.
            stage: its name in progress reports; the sub-folder if not given.

        Returns:
            Whether every cell has a record; False if stopped before that.
        """
        keys = [task.key for task in tasks]
        retry = self.options.retry_failed
        records = self.folder.outcomes(keys, below=below, retry_failed=retry)
        missing = [task for task in tasks if records[task.key] is None]
        progress = StudyProgress.of(records.values(), stage=stage or below)
        self.watch(progress, None)

        def on_event(event: Event) -> None:
            """Count, note and pass on an event."""
            progress.count(event)
            fields = {k: v for k, v in asdict(event).items() if k != "kind" and v is not None}
            self.folder.note(event.kind, **fields)
            self.watch(progress, event)

        if missing and not self.stop.asked:
            workers = self.options.worker_count
            self.folder.note(
                "began", stage=below, waiting=len(missing), total=len(tasks), workers=workers
            )
            self.executor = self.executor or make_executor(self.options, threads)
            try:
                self.executor.run(missing, on_event, self.stop)
            finally:
                if not self.keeps_workers:
                    self._close()
        return all(self.folder.record(key, below) for key in keys)

    def _close(self) -> None:
        """End the processes of the executor, if it has any."""
        if isinstance(self.executor, Local):
            self.executor.close()


def make_executor(options: RunOptions, threads: int) -> Executor:
    """Return the executor that ``options.on`` names."""
    if options.on == "local":
        return Local(options.worker_count, threads, tries=options.tries)
    if options.on == "here":
        return InProcess()
    from gatewise.studies.engine.on_ray import OnRay

    return OnRay(options.on, options.workers, threads, tries=options.tries)


def thread_share(options: RunOptions) -> int:
    """Return the threads of each worker: a share of the cores, or what OMP_NUM_THREADS says."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    most = int(asked) if asked.isdecimal() and int(asked) else cores()
    return max(1, min(most, cores() // options.worker_count))


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
