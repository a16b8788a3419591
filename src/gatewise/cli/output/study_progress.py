"""The progress of a study: a live bar on a terminal, and a few lines elsewhere."""

import json as json_text
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gatewise.cli.output.terminal import console

if TYPE_CHECKING:
    from gatewise.studies import Event, StudyProgress, TimeEstimate, Watch

LINES = 10  # for a whole study, if the output is not a terminal
PROBLEMS = ("lost", "failed", "diverged")


@contextmanager
def watched(*, json: bool = False) -> "Iterator[Watch]":
    """Yield the ``watch`` argument of :func:`gatewise.studies.run_study`.

    Args:
        json: Whether to write lines of JSON to stderr in place of text.
    """
    if json or not sys.stderr.isatty():
        yield _Lines(json)
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
    if tally.estimate is not None and tally.estimate.left:
        parts.append(f"{clock(tally.estimate.left)} left in all")
    elif tally.seconds_left is not None:
        parts.append(f"{clock(tally.seconds_left)} left")
    return "  ".join(parts)


def estimate_line(estimate: "TimeEstimate", state: str = "left") -> str:
    """Return how long a study takes, and what shorter ones would take.

    Args:
        estimate: The times.
        state: What the time is: left, or needed.
    """
    return f"Time: {estimate.words(untuned='--tune none', seeds='--seeds ', state=state)}."


def left_out_line(left: Mapping[str, Any]) -> str:
    """Return that a unit is not compared, and why."""
    return f"Left out: {left['unit']} in {left['backbone']}: {left['reason']}"


class _Plan:
    """Reports, once each, how many runs there are and how long they take."""

    def __init__(self) -> None:
        self.told_plan = False
        self.told_time = False

    def news(self, tally: "StudyProgress") -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield the name, the line and the plain values of what is new."""
        if tally.planned is not None and not self.told_plan:
            self.told_plan = True
            yield "planned", f"Planned: {tally.planned.words}.", tally.planned.to_dict()
        if tally.estimate is not None and tally.ended_now and not self.told_time:
            self.told_time = True
            yield "estimate", estimate_line(tally.estimate), tally.estimate.to_dict()


class _Bar:
    """Shows the progress as a bar."""

    def __init__(self, bar: Any) -> None:
        self.bar = bar
        self.task = bar.add_task("planning", total=None, words="")
        self.plan = _Plan()

    def __call__(self, tally: "StudyProgress", event: "Event | None") -> None:
        self.bar.update(
            self.task,
            description=tally.stage,
            completed=tally.done + tally.failed,
            total=tally.total,
            words=describe(tally),
        )
        for _, line, _ in self.plan.news(tally):
            self.bar.console.print(line, soft_wrap=True)
        if event is not None and event.kind in PROBLEMS:
            self.bar.console.print(f"{event.kind}: {event.key}: {event.reason}", soft_wrap=True)


class _Lines:
    """Prints a line after each tenth of a stage, as text or as JSON."""

    def __init__(self, json: bool) -> None:
        self.json = json
        self.plan = _Plan()
        self.printed: tuple[str, int] | None = None

    def __call__(self, tally: "StudyProgress", event: "Event | None") -> None:
        for name, line, values in self.plan.news(tally):
            self._print(name, line, values)
        if event is not None and event.kind in PROBLEMS:
            line = f"{event.kind}: {event.key}: {event.reason}"
            self._print(event.kind, line, {"key": event.key, "reason": event.reason})
        tenth = tally.stage, (tally.done + tally.failed) * LINES // max(1, tally.total)
        if tenth != self.printed:
            self.printed = tenth
            values = {
                "stage": tally.stage,
                "done": tally.done,
                "failed": tally.failed,
                "total": tally.total,
                "seconds_left": tally.estimate and round(tally.estimate.left, 1),
            }
            self._print("progress", f"{tally.stage}: {describe(tally)}", values)

    def _print(self, name: str, line: str, values: Mapping[str, Any]) -> None:
        """Print one line to stderr."""
        if self.json:
            line = json_text.dumps({"event": name, **values})
        print(line, file=sys.stderr, flush=True)
