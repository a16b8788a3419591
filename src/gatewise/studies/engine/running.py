"""Run a study: ask which cells are wanted, run them, write their records, ask again.

Note [Nothing is lost]. A record is committed before the next cell starts. A cell that was
interrupted keeps its checkpoint and goes on from it. A cell whose worker died is tried twice more,
then recorded as failed with its error. A driver that dies leaves no record and no failure behind:
the same call goes on.
"""

import re
import shutil
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gatewise.checks import check_count, check_number
from gatewise.errors import ArgumentError, FileError
from gatewise.studies.engine.cell import Cell, Record, Work, failure, plain, run_cell
from gatewise.studies.engine.ray_workers import OnRay
from gatewise.studies.engine.study_file import StudyFile
from gatewise.studies.engine.workers import (
    BROKEN,
    DIED,
    ENDED,
    LATE,
    STOPPED,
    Outcome,
    Slot,
    ready_slots,
    sendable,
)
from gatewise.train import StopSignal

LOCAL = "local"
PLACES = "local, ray, ray:HOST:PORT or ray://HOST:PORT"
MOST_PARTS = 10_000
TRIES = 3  # in all, of a cell whose worker died
POLL_SECONDS = 0.2

Wanted = Callable[[Mapping[str, Record]], Sequence[Cell]]


@dataclass(frozen=True)
class Running:
    """How the cells of a study are run; it changes no result.

    Attributes:
        workers: cells at once; with 1 and no time limit they run in this process.
        threads: of torch in each worker; 0 for an equal share of the cores.
        on: ``"local"``, ``"ray"`` or ``"ray:ADDRESS"``.
        shard: ``"i/n"`` to run this part of a comparison's grid into a file of its own.
        time_limit: seconds after which a run has failed; None for none.
        retry_failed: whether to run failed runs again.
    """

    workers: int = 1
    threads: int = 0
    on: str = "local"
    shard: str | None = None
    time_limit: float | None = None
    retry_failed: bool = False

    def __post_init__(self) -> None:
        check_count("run", "workers", self.workers, most=1024)
        check_count("run", "threads", self.threads, least=0, most=1024)
        if self.time_limit is not None:
            check_number("run", "time_limit", self.time_limit, above=0)
        if self.on != LOCAL and not re.fullmatch(r"ray(:.+)?", self.on):
            raise ArgumentError("on: not a place to run", got=self.on, allowed=PLACES)
        self.part  # noqa: B018  checks it

    @property
    def part(self) -> tuple[int, int] | None:
        """The part of the grid and the number of parts; None for the whole study."""
        if self.shard is None:
            return None
        part, _, parts = self.shard.partition("/")
        if part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts) <= MOST_PARTS:
            return int(part), int(parts)
        raise ArgumentError(
            "shard: not a part of a study", got=self.shard, allowed="i/n, for example 1/4"
        )


@dataclass(frozen=True)
class Progress:
    """What a watcher is told.

    Attributes:
        ended: how many of the cells asked for so far have a record.
        asked: how many are asked for so far.
        running: how many run.
        cell: the cell that this is about.
        event: ``started``, ``ended``, ``died`` or ``late``.
        record: of the cell, if it has ended.
    """

    ended: int
    asked: int
    running: int
    cell: Cell
    event: str
    record: Record | None = None


Watch = Callable[[Progress], None]


def run(
    path: str | Path,
    wanted: Wanted,
    work: Work,
    *,
    header: Mapping[str, Any],
    running: Running | None = None,
    watch: Watch | None = None,
    stop: StopSignal | None = None,
) -> dict[str, Record] | None:
    """Run the cells that are wanted and have no record; see Note [Nothing is lost].

    Args:
        path: the study's file or its folder.
        wanted: takes the records by key and returns all cells that the study consists of as far as
            can be said from them. It is asked until all of these have a record.
        work: what a cell does. For several workers it can be sent to other processes.
        header: what the study says about itself.
        running: how cells are run; in this process if not given.
        watch: told what happens.
        stop: set by Ctrl-C and by a termination signal.

    Returns:
        The records of the cells that are wanted, by key; None if stopped before all have one.

    Raises:
        HeldError: naming the process that runs this study.
        FileError: if the disk fails.
        LostProcessError: if the cluster was lost.
    """
    file = StudyFile(path)
    running = running or Running()
    stop = stop or StopSignal()
    with ExitStack() as stack:
        stack.enter_context(file.driven())
        stack.enter_context(_broken_pipes_ignored())
        stack.enter_context(stop.listening())
        file.check_integrity()
        file.prepare()
        if running.retry_failed:
            file.forget_failed()
        driver = _Driver(file, wanted, plain(header), watch or (lambda _: None), stop)
        executor = _executor(work, running, stop)
        stack.callback(executor.close)
        return driver.run(executor)


class _Driver:
    """The loop of :func:`run`."""

    def __init__(
        self,
        file: StudyFile,
        wanted: Wanted,
        header: Record,
        watch: Watch,
        stop: StopSignal,
    ) -> None:
        self.file = file
        self.wanted = wanted
        self.header: Record | None = header  # until it is written down
        self.watch = watch
        self.stop = stop
        self.records = file.records(all_plans=True)
        self.cells: dict[str, Cell] = {}  # asked for so far
        self.ended = 0  # how many of them have a record
        self.running: set[str] = set()
        self.waiting: deque[Cell] = deque()

    def run(self, executor: "Executor") -> dict[str, Record] | None:
        """Run until nothing more is wanted, or until a stop."""
        is_stopping = False
        self._ask()
        self._remove_leftovers()
        while True:
            while self.waiting and not self.stop.asked and len(self.running) < executor.slots:
                cell = self.waiting.popleft()
                self.running.add(cell.key)
                self._tell(cell, "started")
                executor.submit(cell, self.file.work / cell.key)
            if self.stop.asked and not is_stopping:
                is_stopping = True
                executor.stop()
            if not self.running:
                break
            for outcome in executor.outcomes():
                self._take(outcome)
            if not self.waiting and not self.stop.asked:
                self._ask()
        if self.stop.asked and any(key not in self.records for key in self.cells):
            return None
        shutil.rmtree(self.file.work, ignore_errors=True)
        return {key: self.records[key] for key in self.cells}

    def _ask(self) -> None:
        """Ask which cells are wanted, given the records so far."""
        new = []
        for cell in self.wanted(self.records):
            if cell.key in self.cells:
                continue
            known = self.records.get(cell.key)
            if known is not None:
                _check_labels(cell, known)
                self.ended += 1
            else:
                self.waiting.append(cell)
            self.cells[cell.key] = cell
            new.append(cell)
        if new or self.header is not None:
            self.file.ask(new, self.header)
            self.header = None

    def _take(self, outcome: Outcome) -> None:
        """Write the record of a cell that has ended, or try it again."""
        cell = outcome.cell
        self.running.discard(cell.key)
        if outcome.kind == STOPPED:
            self.waiting.appendleft(cell)
            return
        if outcome.kind == BROKEN:
            raise FileError("a run could not be continued", got=outcome.error)
        record = outcome.record
        if outcome.kind == DIED:
            self._tell(cell, DIED)
            if self.file.note_death(cell.key) < TRIES:
                self.waiting.appendleft(cell)
                return
            record = failure(f"{outcome.error}, {TRIES} times in a row", cell)
        elif outcome.kind == LATE:
            self._tell(cell, LATE)
            record = failure("it took longer than the time limit", cell)
        assert record is not None  # noqa: S101  all other outcomes were handled
        self.file.write(cell.key, record)
        self.records[cell.key] = record
        self.ended += 1
        shutil.rmtree(self.file.work / cell.key, ignore_errors=True)
        self._tell(cell, ENDED, record)

    def _remove_leftovers(self) -> None:
        """Remove what finished cells left if a driver died before it could."""
        for key in self.cells:
            if key in self.records and (self.file.work / key).exists():
                shutil.rmtree(self.file.work / key, ignore_errors=True)

    def _tell(self, cell: Cell, event: str, record: Record | None = None) -> None:
        """Tell the watcher."""
        progress = Progress(self.ended, len(self.cells), len(self.running), cell, event, record)
        self.watch(progress)


class InProcess:
    """Runs one cell after another in this process.

    Args:
        work: of the study.
        stop: ends the cell that runs.
    """

    slots = 1

    def __init__(self, work: Work, stop: StopSignal) -> None:
        self.work = work
        self.signal = stop
        self.next: tuple[Cell, Path] | None = None

    def submit(self, cell: Cell, folder: Path) -> None:
        """Keep the cell until its outcome is asked for."""
        self.next = (cell, folder)

    def outcomes(self) -> Iterator[Outcome]:
        """Run the cell."""
        assert self.next is not None  # noqa: S101  a cell runs
        cell, folder = self.next
        record = run_cell(self.work, cell, folder, self.signal)
        yield Outcome(cell, STOPPED if record is None else ENDED, record)

    def stop(self) -> None:
        """Do nothing: the cell looks at the signal itself."""

    close = stop  # and there is nothing to end


class LocalWorkers:
    """Runs cells in processes of this machine.

    Args:
        work: of the study.
        slots: cells at once.
        threads: of torch in each.
        time_limit: seconds for a cell.
    """

    def __init__(self, work: Work, slots: int, threads: int, time_limit: float | None) -> None:
        self.payload = sendable(work)
        self.slots = slots
        self.threads = threads
        self.time_limit = time_limit
        self.places: list[Slot] = []

    def submit(self, cell: Cell, folder: Path) -> None:
        """Start a cell in a free slot; a slot is made when it is first needed."""
        free = next((slot for slot in self.places if slot.cell is None), None)
        if free is None:
            free = Slot(self.payload, self.threads)
            self.places.append(free)
        free.run(cell, folder)

    def outcomes(self) -> Iterator[Outcome]:
        """Yield how cells ended, after waiting a moment for one."""
        for slot in ready_slots(self.places, POLL_SECONDS):
            yield slot.outcome()
        if self.time_limit is not None:
            for slot in self.places:
                if slot.cell is not None and time.monotonic() - slot.began > self.time_limit:
                    yield slot.give_up()

    def stop(self) -> None:
        """Ask for a stop of all that runs."""
        for slot in self.places:
            if slot.cell is not None:
                slot.stop()

    def close(self) -> None:
        """End all processes."""
        for slot in self.places:
            slot.end(kill=slot.cell is not None)


Executor = InProcess | LocalWorkers | OnRay


def _executor(work: Work, running: Running, stop: StopSignal) -> Executor:
    """Return where cells are run."""
    workers = running.workers
    if running.on != LOCAL:
        return OnRay(work, running.on, workers, running.threads or 1)
    if workers == 1 and running.time_limit is None:
        return InProcess(work, stop)
    share = running.threads or max(1, torch.get_num_threads() // workers)
    return LocalWorkers(work, workers, share, running.time_limit)


def _check_labels(cell: Cell, record: Record) -> None:
    """Raise if the record of a cell says that it is another one's."""
    for name, value in cell.labels.items():
        if record.get(name) != value:
            raise ArgumentError(
                "a record is not of the cell whose key it has",
                got=f"{name} {record.get(name)!r}",
                allowed=f"{name} {value!r}",
                fix="delete the record",
            )


@contextmanager
def _broken_pipes_ignored() -> Iterator[None]:
    """Keep SIGPIPE from ending this process when it writes to a worker that has just died."""
    is_main = threading.current_thread() is threading.main_thread()
    if not hasattr(signal, "SIGPIPE") or not is_main:
        yield
        return
    before = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGPIPE, before)
