"""Processes of this machine that run cells, one for each slot.

Note [One process for each slot]. A process is started by itself and has a pipe of its own, so that
a death names its cell and touches no other. A worker whose pipe closes ends at once: it does not
outlive a driver that was killed. The work is sent once, when the worker starts.
"""

import multiprocessing
import os
import pickle
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from gatewise.errors import ArgumentError, GatewiseError
from gatewise.studies.engine.cell import Cell, Record, Work, run_cell
from gatewise.train import StopSignal

STOPPED = "stopped"
ENDED = "ended"  # with a record
DIED = "died"
LATE = "late"
BROKEN = "broken"  # the disk failed
JOIN_SECONDS = 30.0  # that a worker has to save and end


@dataclass(frozen=True)
class Outcome:
    """How an attempt at a cell ended.

    ``ended``: with a record. ``stopped``: on request. ``died``: the worker did. ``late``: it took
    longer than allowed. ``broken``: the disk failed, and the study cannot go on.
    """

    cell: Cell
    kind: str
    record: Record | None = None
    error: str = ""


class Slot:
    """A place for one cell at a time; see Note [One process for each slot].

    Args:
        payload: the work, as bytes.
        threads: of torch.
    """

    def __init__(self, payload: bytes, threads: int) -> None:
        self.payload = payload
        self.threads = threads
        self.cell: Cell | None = None
        self.began = 0.0
        self._start()

    def _start(self) -> None:
        """Start a process."""
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), daemon=False)
        with _without_main():
            self.process.start()
        theirs.close()
        self._send((self.payload, self.threads))

    def run(self, cell: Cell, folder: Path) -> None:
        """Let the process run a cell."""
        if not self.process.is_alive():
            self.end(kill=True)
            self._start()
        self.cell = cell
        self.began = time.monotonic()
        self._send((cell, str(folder)))

    def stop(self) -> None:
        """Ask for a stop of the cell that runs."""
        self._send(STOPPED)

    def outcome(self) -> Outcome:
        """Return how the cell ended, which :func:`ready_slots` has said."""
        cell = self.cell
        assert cell is not None  # noqa: S101  only busy slots are asked
        self.cell = None
        try:
            kind, content = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(JOIN_SECONDS)
            code = self.process.exitcode
            self.end(kill=True)
            return Outcome(cell, DIED, error=f"its process ended {_code_words(code)}")
        if kind == ENDED:
            return Outcome(cell, ENDED, record=content)
        return Outcome(cell, kind, error=content)

    def give_up(self) -> Outcome:
        """Kill the process, because its cell takes too long."""
        cell = self.cell
        assert cell is not None  # noqa: S101
        self.cell = None
        self.end(kill=True)
        return Outcome(cell, LATE)

    def end(self, *, kill: bool = False) -> None:
        """End the process: its pipe closes."""
        with suppress(OSError):
            self.pipe.close()
        if kill:
            self.process.kill()
        self.process.join(JOIN_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()

    def _send(self, message: Any) -> None:
        """Send a message; that a process has died is seen when its outcome is read."""
        with suppress(OSError):
            self.pipe.send(message)


@contextmanager
def _without_main() -> Iterator[None]:
    """Keep a new process from running the user's program again, which need not be written for it.

    What the work needs of that program is sent with the work.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def ready_slots(slots: list[Slot], seconds: float) -> Iterator[Slot]:
    """Yield the busy slots whose cell has ended, after waiting for one for a while."""
    busy = {slot.pipe: slot for slot in slots if slot.cell is not None}
    for pipe in wait(list(busy), seconds):
        yield busy[pipe]  # pyright: ignore[reportArgumentType]


def sendable(work: Work) -> bytes:
    """Return the work as bytes for other processes of this program.

    Raises:
        ArgumentError: if it cannot be sent.
    """
    try:
        return cloudpickle.dumps(work)  # sends functions of a notebook or script, too
    except Exception as problem:  # whatever an object of the user raises
        raise ArgumentError(
            "workers: the model, the data or a function cannot be sent to other processes",
            got=f"{type(problem).__name__}: {problem}",
            fix="define them at the top level of a module, or use workers=1",
        ) from problem


def received(payload: bytes) -> Work:
    """Return what :func:`sendable` packed; it comes from the driver's own pipe."""
    return pickle.loads(payload)  # noqa: S301


def _serve(pipe: Connection) -> None:
    """Run cells until the pipe closes; the main function of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the driver passes it on
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    current: dict[str, StopSignal] = {}
    threading.Thread(target=_listen, args=(pipe, messages, current), daemon=True).start()
    payload, threads = messages.get()
    work: Work | None = None
    problem = ""
    try:
        import torch

        torch.set_num_threads(threads)
        work = received(payload)
    except Exception as error:  # an import of the user's code may raise anything
        problem = f"the work cannot be read by a worker: {type(error).__name__}: {error}"
    while True:
        cell, folder = messages.get()
        stop = current["stop"]
        if work is None:
            pipe.send((BROKEN, problem))
            continue
        try:
            record = run_cell(work, cell, Path(folder), stop)
        except (GatewiseError, OSError) as error:
            pipe.send((BROKEN, str(error)))
            continue
        pipe.send((STOPPED, "") if record is None else (ENDED, record))


def _listen(
    pipe: Connection, messages: "queue.SimpleQueue[Any]", current: dict[str, StopSignal]
) -> None:
    """Pass messages of the driver on; end the process when the driver is gone."""
    current["stop"] = StopSignal()
    while True:
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            sys.stdout.flush()
            os._exit(1)
        if message == STOPPED:
            current["stop"].asked = True
        else:
            current["stop"] = StopSignal()
            messages.put(message)


def _code_words(code: int | None) -> str:
    """Return in words how a process ended."""
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"by the signal {signal.Signals(-code).name}"
    return f"with code {code}"
