"""Run cells on this machine: in this process, or in worker processes that run one after another.

Also what happens to cells while they run (:class:`Event`), and how lost cells are retried.
"""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol

from gatewise.errors import FileError, shorten
from gatewise.studies.engine.cell_work import Outcome, Task, fail, run_cell
from gatewise.studies.engine.worker import START
from gatewise.train import StopSignal

RERUN = "correct the cause and rerun the same command to resume"
POLL_SECONDS = 0.2  # between two looks whether to stop
GRACE_SECONDS = 5.0  # that a worker has to end
SOURCE = Path(__file__).parents[3]

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

    def run(self, tasks: Sequence[Task], on_event: OnEvent, stop: StopSignal) -> None:
        """Run all tasks, or stop when asked to; ``on_event`` is called with what happens."""
        ...


class Retries:
    """Decides whether a lost cell is tried again.

    Args:
        tries: how often a cell is started. A cell that is lost so often gets the result failed.
        on_event: called with that failure.
    """

    def __init__(self, tries: int, on_event: OnEvent) -> None:
        self.tries = tries
        self.on_event = on_event
        self.lost: Counter[str] = Counter()

    def again(self, task: Task, outcome: Outcome) -> bool:
        """Return whether to try again; if not, record the failure.

        Raises:
            FileError: if the disc fails for all cells.
        """
        self.lost[task.key] += 1
        if self.lost[task.key] < self.tries:
            return True
        if outcome.disc:
            raise FileError("the study cannot continue", got=outcome.reason, fix=RERUN)
        failure = fail(task, f"{outcome.reason} (tried {self.tries} times)")
        self.on_event(Event(failure.status, task.key, "driver", failure.reason))
        return False


class InProcess:
    """Runs tasks in this process, one after another.

    Args:
        work: takes a task and a stop signal and returns the fields of the record, or None if
            stopped. If not given, the task says what to do.
    """

    def __init__(
        self, work: Callable[[Task, StopSignal], Mapping[str, Any] | None] | None = None
    ) -> None:
        self.work = work

    def run(self, tasks: Sequence[Task], on_event: OnEvent, stop: StopSignal) -> None:
        """Run all tasks, or stop when asked to; ``on_event`` is called with what happens."""
        for task in tasks:
            if stop.asked:
                return
            on_event(Event("started", task.key, "here"))
            outcome = run_cell(task, stop, partial(self.work, task) if self.work else None)
            on_event(Event(outcome.status, task.key, "here", outcome.reason))
            if outcome.status == "lost":
                raise FileError("the study cannot continue", got=outcome.reason, fix=RERUN)


class Worker:
    """A process that runs :mod:`gatewise.studies.engine.worker`.

    Args:
        threads: of torch in the process.
        messages: receives what the process says.
    """

    def __init__(self, threads: int, messages: "queue.Queue[Message]") -> None:
        self.task: Task | None = None
        self._errors: IO[bytes] = tempfile.TemporaryFile()
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-c", START, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
            env=_environment(threads),
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

    The processes are kept for the next call of :meth:`run` until :meth:`close` is called, because
    each takes seconds to start.

    Args:
        workers: processes at once.
        threads: of torch in each.
        tries: how often a cell is started whose worker is lost.
    """

    def __init__(self, workers: int, threads: int, *, tries: int) -> None:
        self.workers = workers
        self.threads = threads
        self.tries = tries
        self.pool: list[Worker] = []
        self.messages: queue.Queue[Message] = queue.Queue()

    def run(self, tasks: Sequence[Task], on_event: OnEvent, stop: StopSignal) -> None:
        """Run all tasks, or stop when asked to; ``on_event`` is called with what happens."""
        self.waiting = deque(tasks)
        self.on_event = on_event
        self.stop = stop
        self.retries = Retries(self.tries, on_event)
        self.failed_starts = 0
        try:
            self._work()
        except BaseException:
            self.close()
            raise
        if stop.asked:
            self.close()  # a worker that was asked to stop takes no more work

    def _work(self) -> None:
        """Let the workers run the tasks that wait."""
        for worker in self.pool:  # those of an earlier call
            self._give_next(worker)
        count = min(self.workers, len(self.pool) + len(self.waiting))
        while len(self.pool) < count:
            self.pool.append(Worker(self.threads, self.messages))
        stopping = False
        while self.pool and (self.waiting or any(worker.task for worker in self.pool)):
            if self.stop.asked and not stopping:
                stopping = True
                self.waiting.clear()
                for worker in self.pool:
                    worker.ask_to_stop()
            self._handle_message()

    def close(self) -> None:
        """End the worker processes."""
        for worker in self.pool:
            worker.end()
        self.pool = []
        self.messages = queue.Queue()  # without what ended workers have said

    def _handle_message(self) -> None:
        """Wait for one message of a worker and act on it."""
        try:
            worker, message = self.messages.get(timeout=POLL_SECONDS)
        except queue.Empty:
            return
        if message is None:
            return self._replace(worker)
        if "key" in message:
            self._settle(worker, Outcome(message["status"], message["reason"], message["disc"]))
        self._give_next(worker)

    def _give_next(self, worker: Worker) -> None:
        """Let a worker that is free run the next task."""
        if self.waiting and worker.task is None:
            worker.give(self.waiting.popleft())
            self._report("started", worker)

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
        self.pool.remove(worker)
        reason = worker.reason_of_end()
        if worker.task is not None:
            self._report("lost", worker, reason)
            self._retry(worker.task, Outcome("lost", reason))
        elif not self.stop.asked:  # it died before its first task
            self.failed_starts += 1
            if self.failed_starts >= self.tries * self.workers:
                raise FileError("worker processes cannot be started", got=reason)
        worker.end()
        if self.waiting:
            self.pool.append(Worker(self.threads, self.messages))

    def _retry(self, task: Task, outcome: Outcome) -> None:
        """Queue a lost cell again, if it may be retried."""
        if not self.stop.asked and self.retries.again(task, outcome):
            self.waiting.appendleft(task)

    def _report(self, kind: str, worker: Worker, reason: str | None = None) -> None:
        """Report what happened to the worker's cell."""
        if worker.task is not None:
            self.on_event(Event(kind, worker.task.key, worker.name, reason))


def _environment(threads: int) -> dict[str, str]:
    """Return the driver's environment, with this package importable and threads limited."""
    path = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {
        **os.environ,
        "PYTHONPATH": path,
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
    }
