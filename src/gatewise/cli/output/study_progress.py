"""Progress of a study: a live bar on a terminal, elsewhere a line now and then."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gatewise.cli.output.terminal import console

if TYPE_CHECKING:
    from gatewise.studies import Event, StudyProgress, Watch

LINES = 10  # of a whole study, where the output is not a terminal


@contextmanager
def watched() -> "Iterator[Watch]":
    """What to give :func:`gatewise.studies.run_study` as ``watch``."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[words]}"))
    with Progress(*columns, console=console(error=True), transient=True) as bar:
        yield _Bar(bar)


def describe(tally: "StudyProgress") -> str:
    """Where the study is, in words."""
    from gatewise.train import clock

    parts = [f"{tally.done}/{tally.total} done", f"{tally.running} running"]
    if tally.failed:
        parts.append(f"{tally.failed} failed")
    if tally.ended_now:
        parts.append(f"{tally.rate:.2f} cells/s")
    if tally.seconds_left is not None:
        parts.append(f"{clock(tally.seconds_left)} left")
    return "  ".join(parts)


class _Bar:
    def __init__(self, bar: Any) -> None:
        self.bar = bar
        self.task = bar.add_task("planning", total=None, words="")

    def __call__(self, tally: "StudyProgress", event: "Event | None") -> None:
        where = {
            "completed": tally.done + tally.failed,
            "total": tally.total,
            "words": describe(tally),
        }
        self.bar.update(self.task, description=tally.stage, **where)
        if event is not None and event.kind in ("lost", "failed", "diverged"):
            self.bar.console.print(f"{event.kind}: {event.key}: {event.reason}", soft_wrap=True)


class _Lines:
    def __init__(self) -> None:
        self.said, self.begun = -1, time.monotonic()

    def __call__(self, tally: "StudyProgress", event: "Event | None") -> None:
        if event is not None and event.kind in ("lost", "failed", "diverged"):
            print(f"{event.kind}: {event.key}: {event.reason}", file=sys.stderr)
        tenth = (tally.done + tally.failed) * LINES // max(1, tally.total)
        if tenth != self.said:
            self.said = tenth
            print(f"{tally.stage}: {describe(tally)}", file=sys.stderr, flush=True)
