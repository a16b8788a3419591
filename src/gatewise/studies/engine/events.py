"""What happens to cells while they run, how lost cells are retried, and running in this process."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from gatewise.errors import FileError
from gatewise.studies.engine.cell_work import Outcome, Task, fail, run_cell
from gatewise.train import StopSignal

RERUN = "correct the cause and rerun the same command to resume"


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
