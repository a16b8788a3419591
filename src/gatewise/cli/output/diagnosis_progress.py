"""What a diagnosis is doing, all the while.

A line a question, with a bar where there is a count.
"""

import time
from types import TracebackType
from typing import Any

from gatewise.cli.output.terminal import console


class Watch:
    """Called with the question, how much of it is done and of how much.

    On a terminal the lines are live.
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

        self.titles, self.out = titles, console(error=True)
        self.live = self.out.is_terminal
        columns = (
            SpinnerColumn(finished_text="·"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TimeElapsedColumn(),
        )
        self.bars = Progress(*columns, console=self.out, disable=not self.live)
        self.now: str | None = None
        self.task: Any = None
        self.began = 0.0

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
        if question != self.now:
            self._finish()
            self._start(question)
        self.bars.update(self.task, completed=done, total=total)

    def _start(self, question: str) -> None:
        self.now, self.began = question, time.monotonic()
        self.task = self.bars.add_task(self.titles.get(question, question), total=None)
        if not self.live:
            self.out.print(f"asking: {self.titles.get(question, question)}", soft_wrap=True)

    def _finish(self) -> None:
        if self.now is None:
            return
        self.bars.update(self.task, completed=1, total=1)
        if not self.live:
            self.out.print(f"  done in {time.monotonic() - self.began:.1f} s", soft_wrap=True)
