"""The progress of a study: a live bar on a terminal, and a few lines elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gatewise.cli.output.terminal import console

if TYPE_CHECKING:
    from gatewise.studies import Event, StudyProgress, Watch

LINES = 10  # for a whole study, if the output is not a terminal
PROBLEMS = ("lost", "failed", "diverged")


@contextmanager
def watched() -> "Iterator[Watch]":
    """Yield the ``watch`` argument of :func:`gatewise.studies.run_study`."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[words]}"))
    with Progress(*columns, console=console(error=True), transient=True) as bar:
        yield _Bar(bar)


def describe(tally: "StudyProgress") -> str:
    """Return the state of a study in one line."""
    from gatewise.train import clock

    parts = [f"{tally.done}/{tally.total} done", f"{tally.running} running"]
    if tally.failed:
        parts.append(f"{tally.failed} failed")
    if tally.ended_now:
        parts.append(f"{tally.rate:.2f} runs/s")
    if tally.seconds_left is not None:
        parts.append(f"{clock(tally.seconds_left)} left")
    return "  ".join(parts)


class _Bar:
    """Shows the progress as a bar."""

    def __init__(self, bar: Any) -> None:
        self.bar = bar
        self.task = bar.add_task("planning", total=None, words="")

    def __call__(self, tally: "StudyProgress", event: "Event | None") -> None:
        self.bar.update(
            self.task,
            description=tally.stage,
            completed=tally.done + tally.failed,
            total=tally.total,
            words=describe(tally),
        )
        if event is not None and event.kind in PROBLEMS:
            self.bar.console.print(f"{event.kind}: {event.key}: {event.reason}", soft_wrap=True)


class _Lines:
    """Prints a line after each tenth of the study."""

    def __init__(self) -> None:
        self.printed = -1

    def __call__(self, tally: "StudyProgress", event: "Event | None") -> None:
        if event is not None and event.kind in PROBLEMS:
            print(f"{event.kind}: {event.key}: {event.reason}", file=sys.stderr)
        tenth = (tally.done + tally.failed) * LINES // max(1, tally.total)
        if tenth != self.printed:
            self.printed = tenth
            print(f"{tally.stage}: {describe(tally)}", file=sys.stderr, flush=True)
