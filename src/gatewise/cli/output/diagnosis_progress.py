"""The progress of a diagnosis: one line for each question, with a bar if there is a count."""

import time
from types import TracebackType
from typing import Any

from gatewise.cli.output.terminal import console
from gatewise.errors import shorten

WIDTH = 80  # columns of a line in a file or a pipe


class Watch:
    """The ``progress`` argument of :func:`gatewise.diagnose`. On a terminal, the lines are live.

    Args:
        titles: The title of each question, by name.
    """

    def __init__(self, titles: dict[str, str]) -> None:
        from rich.progress import (
            BarColumn,
            Progress,
            SpinnerColumn,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
        )
        from rich.table import Column

        self.titles = titles
        self.out = console(error=True)
        self.live = self.out.is_terminal
        columns = (
            SpinnerColumn(finished_text="·"),
            # The title is cut where the line would be wider than the terminal.
            TextColumn(
                "{task.description}",
                table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
            ),
            BarColumn(bar_width=12),
            TaskProgressColumn(),
            TimeElapsedColumn(),
        )
        self.bars = Progress(*columns, console=self.out, disable=not self.live, expand=True)
        self.question: str | None = None
        self.task: Any = None
        self.started = 0.0

    def __enter__(self) -> "Watch":
        self.bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._finish()
        self.bars.stop()

    def __call__(self, question: str, done: int, total: int | None) -> None:
        if question != self.question:
            self._finish()
            self._start(question)
        self.bars.update(self.task, completed=done, total=total)

    def _start(self, question: str) -> None:
        """Show the line of a new question."""
        self.question = question
        self.started = time.monotonic()
        title = self.titles.get(question, question)
        self.task = self.bars.add_task(title, total=None)
        if not self.live:
            self.out.print(shorten(f"checking: {title}", WIDTH), soft_wrap=True)

    def _finish(self) -> None:
        """Complete the line of the current question."""
        if self.question is None:
            return
        self.bars.update(self.task, completed=1, total=1)
        if not self.live:
            self.out.print(f"  done in {time.monotonic() - self.started:.1f} s", soft_wrap=True)
