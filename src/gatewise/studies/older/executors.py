"""Run cells on this machine: in this process, or in worker processes that run one after another.

Also what happens to cells while they run (:class:`Event`), and how lost cells are retried.

Note [Lost is not a result]. A cell is lost if its worker, its machine or a file was lost. It is
tried again. Only what its own code does is a result: an exception, or a crash of the process in the
code of the cell (a signal such as SIGSEGV, or an exit), each time it is tried. A worker that is
killed from outside, by a person, a scheduler or the system when memory is short, says nothing about
the cell. After the last attempt, such a cell has no record, the others run to their end, and the
study then stops with an error. The same command tries it again.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, Protocol

from gatewise.errors import FileError, LostProcessError, shorten
from gatewise.studies.older.cell_work import Outcome, Task, fail, run_cell
from gatewise.studies.older.worker import START
from gatewise.train import StopSignal

RERUN = "correct the cause and rerun the same command to resume"
POLL_SECONDS = 0.2  # between two looks whether to stop
GRACE_SECONDS = 5.0  # that a worker has to end
SOURCE = Path(__file__).parents[3]
# Signals that the code of a process causes itself.
CRASHES = {
    int(getattr(signal, name))
    for name in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSYS", "SIGTRAP")
    if hasattr(signal, name)
}

# A worker and its message; None: the worker has ended.
Message = tuple["Worker", dict[str, Any] | None]


@dataclass(frozen=True)
class Event:
    """What happened to a cell.

    ``started``, ``finished``, ``diverged``, ``failed``, ``stopped`` or ``lost``.
    """

    kind: str
    key: str
    worker: str
    reason: str | None = None


OnEvent = Callable[[Event], None]


class Executor(Protocol):
    """Where cells are run."""

    def run(self, tasks: Iterable[Task], on_event: OnEvent, stop: StopSignal) -> None:
        """Run all tasks, or stop when asked to.

        Args:
            tasks: a task is taken from these when there is a place to run it, not before.
            on_event: called with what happens.
            stop: ends the run early if a stop is asked for.

        Raises:
            LostProcessError: if cells were lost too often, or all places to run them were.
        """
        ...

    def close(self) -> None:
        """End what was kept ready for the next run."""
        ...


class Retries:
    """Decides whether a lost cell is tried again; see Note [Lost is not a result].

    Args:
        tries: how often a cell is started.
        on_event: called with the failure of a cell whose own code ends its worker.
    """

    def __init__(self, tries: int, on_event: OnEvent) -> None:
        self.tries = tries
        self.on_event = on_event
        self.losses: Counter[str] = Counter()
        self.given_up: dict[str, str] = {}  # key to the last reason

    def again(self, task: Task, outcome: Outcome, *, crashed: bool = False) -> bool:
        """Return whether to try again.

        Args:
            task: the cell.
            outcome: of this attempt.
            crashed: whether its own code ended the worker. After the last attempt, this is the
                cell's result.

        Raises:
            FileError: if the disc fails for all cells.
        """
        self.losses[task.key] += 1
        if self.losses[task.key] < self.tries:
            return True
        if outcome.disc:
            raise FileError("the study cannot continue", got=outcome.reason, fix=RERUN)
        if crashed:
            failure = fail(task, f"{outcome.reason} (tried {self.tries} times)")
            self.on_event(Event(failure.status, task.key, "driver", failure.reason))
        else:
            self.given_up[task.key] = outcome.reason or "lost"
        return False

    def check(self) -> None:
        """Raise if cells were given up."""
        if self.given_up:
            key, reason = next(iter(self.given_up.items()))
            raise LostProcessError(
                f"{len(self.given_up)} runs were lost {self.tries} times each and have no result; "
                "all others are kept",
                got=f"{key}: {reason}",
                fix=RERUN,
            )


class InProcess:
    """Runs tasks in this process, one after another.

    Args:
        work: takes a task and a stop signal and returns the fields of the record, or None if
            stopped. If not given, the task says what to do.
    """

    def __init__(
        self,
        work: Callable[[Task, StopSignal], Mapping[str, Any] | None] | None = None,
    ) -> None:
        self.work = work

    def run(self, tasks: Iterable[Task], on_event: OnEvent, stop: StopSignal) -> None:
        """Run all tasks, or stop when asked to; ``on_event`` is called with what happens."""
        for task in tasks:
            if stop.asked:
                return
            on_event(Event("started", task.key, "here"))
            outcome = run_cell(task, stop, partial(self.work, task) if self.work else None)
            on_event(Event(outcome.status, task.key, "here", outcome.reason))
            if outcome.status == "lost":
                raise FileError("the study cannot continue", got=outcome.reason, fix=RERUN)

    def close(self) -> None:
        """Do nothing: nothing is kept."""


class Worker:
    """A process that runs :mod:`gatewise.studies.older.worker`.

    Args:
        threads: of torch in the process.
        messages: receives what the process says.
        gpus: the graphics processors that it sees, as CUDA_VISIBLE_DEVICES names them; None for
            those that the driver sees.
    """

    def __init__(
        self,
        threads: int,
        messages: "queue.Queue[Message]",
        gpus: str | None = None,
    ) -> None:
        self.task: Task | None = None
        self.is_ready = False
        self.gpus = gpus
        self._errors: IO[bytes] = tempfile.TemporaryFile()
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-c", START, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
            env=_environment(threads, gpus),
            start_new_session=True,  # Ctrl-C in a terminal is for the driver alone
        )
        self._reader = threading.Thread(target=self._read, args=(messages,), daemon=True)
        self._reader.start()

    @property
    def name(self) -> str:
        """The name in the journal: the process id."""
        return str(self._process.pid)

    def give(self, task: Task) -> None:
        """Let the process run the task."""
        self.task = task
        self._send({"task": task.to_dict()})

    def ask_to_stop(self) -> None:
        """Let the process save its state and stop."""
        self._send({"stop": True})

    def end(self) -> None:
        """End the process, by force if it does not end in time."""
        if self._process.stdin:
            try:
                self._process.stdin.close()
            except OSError:  # the process has ended
                pass
        try:
            self._process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(GRACE_SECONDS)
        self._errors.close()

    @property
    def has_crashed(self) -> bool:
        """Whether the code in the process ended it, rather than somebody outside."""
        code = self._process.wait()
        return code > 0 or -code in CRASHES

    def reason_of_end(self) -> str:
        """Return the exit code or signal, and the last line of stderr."""
        code = self._process.wait()
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - 2000))
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        last = f": {shorten(lines[-1], 300)}" if lines else ""
        return f"the worker process {how}{last}"

    def _send(self, message: dict[str, Any]) -> None:
        """Send a line of JSON to the process."""
        assert self._process.stdin is not None  # noqa: S101  a pipe was asked for
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except OSError:  # the process has ended, and the reader thread reports it
            pass

    def _read(self, messages: "queue.Queue[Message]") -> None:
        """Pass on the lines of the process; runs in a thread."""
        assert self._process.stdout is not None  # noqa: S101  a pipe was asked for
        with self._process.stdout as lines:
            for line in lines:
                messages.put((self, json.loads(line)))
        messages.put((self, None))


class Local:
    """Runs tasks in worker processes; the cell of a lost worker is tried again.

    The workers are kept for the next run until :meth:`close`.

    Args:
        workers: processes at once.
        threads: of torch in each.
        tries: how often a cell is started whose worker is lost.
        gpus: for each worker, the graphics processors that it sees; empty if they see all.
    """

    def __init__(self, workers: int, threads: int, *, tries: int, gpus: Sequence[str] = ()) -> None:
        self.workers = len(gpus) or workers
        self.threads = threads
        self.tries = tries
        self.free_gpus = deque(gpus)
        self.pool: list[Worker] = []
        self.messages: queue.Queue[Message] = queue.Queue()

    def run(self, tasks: Iterable[Task], on_event: OnEvent, stop: StopSignal) -> None:
        """Run all tasks, or stop when asked to; ``on_event`` is called with what happens."""
        self.source = iter(tasks)
        self.on_event = on_event
        self.stop = stop
        self.retries = Retries(self.tries, on_event)
        self.failed_starts = 0
        # As many tasks as can run at once are taken at the beginning, further ones one by one.
        self.waiting = deque(islice(self.source, self.workers))
        try:
            self._fill_pool()
            while self.waiting or any(worker.task for worker in self.pool):
                self._handle_message()
                if stop.asked:
                    break
            if stop.asked:
                self._stop()
        except BaseException:
            self.close()
            raise
        if not stop.asked:
            self.retries.check()

    def close(self) -> None:
        """End all worker processes."""
        while self.pool:
            self._remove(self.pool[-1])

    def _stop(self) -> None:
        """Let the workers save and stop, and end them."""
        self.waiting.clear()
        self.source = iter(())
        for worker in self.pool:
            worker.ask_to_stop()
        while any(worker.task for worker in self.pool):
            self._handle_message()
        self.close()

    def _fill_pool(self) -> None:
        """Give tasks to idle workers, and start more for the rest."""
        for worker in self.pool:
            self._employ(worker)
        starting = sum(not worker.is_ready for worker in self.pool)
        for _ in range(min(len(self.waiting) - starting, self.workers - len(self.pool))):
            self._start_worker()

    def _start_worker(self) -> None:
        """Add a worker to the pool."""
        gpus = self.free_gpus.popleft() if self.free_gpus else None
        self.pool.append(Worker(self.threads, self.messages, gpus))

    def _employ(self, worker: Worker) -> None:
        """Give the next task to a worker that is idle."""
        if not worker.is_ready or worker.task is not None or self.stop.asked:
            return
        task = self.waiting.popleft() if self.waiting else next(self.source, None)
        if task is not None:
            worker.give(task)
            self._report("started", worker)

    def _handle_message(self) -> None:
        """Wait for one message of a worker and act on it."""
        try:
            worker, message = self.messages.get(timeout=POLL_SECONDS)
        except queue.Empty:
            return
        if worker not in self.pool:  # a late word of one that was ended
            return
        if message is None:
            return self._replace(worker)
        if "key" in message:
            self._settle(worker, Outcome(message["status"], message["reason"], message["disc"]))
        worker.is_ready = True
        self._employ(worker)

    def _settle(self, worker: Worker, outcome: Outcome) -> None:
        """Take in the outcome of a worker's task."""
        self._report(outcome.status, worker, outcome.reason)
        task = worker.task
        worker.task = None
        if task is not None and outcome.status == "lost":
            self._retry(task, outcome)
        elif task is not None and outcome.status == "stopped" and not self.stop.asked:
            self.waiting.appendleft(task)  # someone else asked this worker to stop

    def _replace(self, worker: Worker) -> None:
        """Start another worker in place of one that died, and try its cell again."""
        reason = worker.reason_of_end()
        has_crashed = worker.has_crashed
        self._remove(worker)
        if worker.task is not None:
            self._report("lost", worker, reason)
            self._retry(worker.task, Outcome("lost", reason), crashed=has_crashed)
        elif not self.stop.asked:  # it died before its first task
            self.failed_starts += 1
            if self.failed_starts >= self.tries * self.workers:
                raise LostProcessError(
                    "worker processes cannot be started; what is finished is kept",
                    got=reason,
                    fix=RERUN,
                )
        if not self.stop.asked:
            if not self.waiting:
                self.waiting.extend(islice(self.source, 1))
            self._fill_pool()

    def _remove(self, worker: Worker) -> None:
        """End a worker and take it out of the pool."""
        self.pool.remove(worker)
        if worker.gpus is not None:
            self.free_gpus.append(worker.gpus)
        worker.end()

    def _retry(self, task: Task, outcome: Outcome, *, crashed: bool = False) -> None:
        """Queue a lost cell again, if it may be retried."""
        if not self.stop.asked and self.retries.again(task, outcome, crashed=crashed):
            self.waiting.appendleft(task)

    def _report(self, kind: str, worker: Worker, reason: str | None = None) -> None:
        """Report what happened to the worker's cell."""
        if worker.task is not None:
            self.on_event(Event(kind, worker.task.key, worker.name, reason))


def _environment(threads: int, gpus: str | None) -> dict[str, str]:
    """Return the driver's environment, with this package importable and threads limited."""
    path = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
    }
    if gpus is not None:
        environment["CUDA_VISIBLE_DEVICES"] = gpus
    return environment
