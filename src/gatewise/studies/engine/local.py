"""Cells on this machine.

Long-lived worker processes, each given the next cell when it is done with one.
"""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from gatewise.errors import FileError, shorten
from gatewise.studies.engine.events import Event, Retries, Tell
from gatewise.studies.engine.run_cell import Outcome, Task, carry_out
from gatewise.studies.engine.worker import START
from gatewise.train import StopSignal

PATIENCE = 0.2  # seconds between two looks whether to stop
GRACE = 5.0  # seconds a worker has to end
SOURCE = Path(__file__).parents[3]


Heard = tuple["Worker", dict[str, Any] | None]  # a worker and what it said; None: it has ended


class Worker:
    """A process of :mod:`gatewise.studies.engine.worker`; what it says arrives in ``heard``."""

    def __init__(self, threads: int, heard: "queue.Queue[Heard]") -> None:
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
            start_new_session=True,  # Ctrl-C in a terminal is the driver's to hear
        )
        self._ear = threading.Thread(target=self._listen, args=(heard,), daemon=True)
        self._ear.start()

    @property
    def name(self) -> str:
        """What the journal calls it."""
        return str(self._process.pid)

    def give(self, task: Task) -> None:
        """Let it carry out the task."""
        self.task = task
        self._tell({"task": task.to_dict()})

    def ask_to_stop(self) -> None:
        """Let it save what it is at."""
        self._tell({"stop": True})

    def end(self) -> None:
        """End it: it has nothing to do, or nobody waits for it."""
        if self._process.stdin:
            try:
                self._process.stdin.close()
            except OSError:  # it has ended
                pass
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._ear.join(GRACE)
        self._errors.close()

    def how_it_ended(self) -> str:
        """Exit code or signal, and the last words."""
        code = self._process.wait()
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - 2000))
        words = self._errors.read().decode(errors="replace").strip().splitlines()
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return f"the worker process {how}" + (f": {shorten(words[-1], 300)}" if words else "")

    def _tell(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None  # noqa: S101  a pipe was asked for
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except OSError:  # it has ended, and the thread that listens will say so
            pass

    def _listen(self, heard: "queue.Queue[Heard]") -> None:
        assert self._process.stdout is not None  # noqa: S101  a pipe was asked for
        with self._process.stdout as lines:
            for line in lines:
                heard.put((self, json.loads(line)))
        heard.put((self, None))


class Local:
    """Runs tasks in ``workers`` processes of ``threads`` threads each.

    A lost worker's cell is tried again.
    """

    def __init__(self, workers: int, threads: int, *, tries: int) -> None:
        self.workers, self.threads, self.tries = workers, threads, tries

    def run(self, tasks: Sequence[Task], tell: Tell, stop: StopSignal) -> None:
        """Carry out all tasks, or stop when asked to; ``tell`` is told what happens."""
        self.waiting, self.tell, self.stop = deque(tasks), tell, stop
        self.retries, self.stillborn = Retries(self.tries, tell), 0
        self.heard: queue.Queue[Heard] = queue.Queue()
        self.crew = [Worker(self.threads, self.heard) for _ in range(min(self.workers, len(tasks)))]
        told = False
        try:
            while self.crew and (self.waiting or any(worker.task for worker in self.crew)):
                if stop.asked and not told:
                    told = True
                    self.waiting.clear()
                    for worker in self.crew:
                        worker.ask_to_stop()
                self._hear()
        finally:
            for worker in self.crew:
                worker.end()

    def _hear(self) -> None:
        try:
            worker, message = self.heard.get(timeout=PATIENCE)
        except queue.Empty:
            return
        if message is None:
            return self._replace(worker)
        if "key" in message:
            self._settle(worker, Outcome(message["status"], message["reason"], message["disc"]))
        if self.waiting and worker.task is None:
            worker.give(self.waiting.popleft())
            self._say("started", worker)

    def _settle(self, worker: Worker, outcome: Outcome) -> None:
        """A worker has come to the end of its task."""
        self._say(outcome.status, worker, outcome.reason)
        task, worker.task = worker.task, None
        if task is not None and outcome.status == "lost":
            self._again(task, outcome)
        elif task is not None and outcome.status == "stopped" and not self.stop.asked:
            self.waiting.appendleft(task)  # someone else has asked this worker

    def _replace(self, worker: Worker) -> None:
        """A worker has died: another one takes its place, and its cell is tried again."""
        self.crew.remove(worker)
        reason = worker.how_it_ended()
        if worker.task is not None:
            self._say("lost", worker, reason)
            self._again(worker.task, Outcome("lost", reason))
        elif not self.stop.asked:  # it did not even begin
            self.stillborn += 1
            if self.stillborn >= self.tries * self.workers:
                raise FileError("worker processes cannot be started", got=reason)
        worker.end()
        if self.waiting:
            self.crew.append(Worker(self.threads, self.heard))

    def _again(self, task: Task, outcome: Outcome) -> None:
        if not self.stop.asked and self.retries.again(task, outcome):
            self.waiting.appendleft(task)

    def _say(self, kind: str, worker: Worker, reason: str | None = None) -> None:
        if worker.task is not None:
            self.tell(Event(kind, worker.task.key, worker.name, reason))


class Here:
    """Runs tasks in this process, one after another."""

    def run(self, tasks: Sequence[Task], tell: Tell, stop: StopSignal) -> None:
        """Carry out all tasks, or stop when asked to; ``tell`` is told what happens."""
        for task in tasks:
            if stop.asked:
                return
            tell(Event("started", task.key, "here"))
            outcome = carry_out(task, stop)
            tell(Event(outcome.status, task.key, "here", outcome.reason))
            if outcome.status == "lost":
                raise FileError(
                    "the study cannot go on",
                    got=outcome.reason,
                    fix="mend that, and start it again",
                )


def _environment(threads: int) -> dict[str, str]:
    """The driver's own, with this very package to be found, and libraries below torch kept to as many threads."""
    path = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {
        **os.environ,
        "PYTHONPATH": path,
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
    }
