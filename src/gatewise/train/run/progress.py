"""Progress in one line: position, speed and time left of a run."""

import sys
import time
from collections import deque
from collections.abc import Mapping
from typing import IO, Any

from gatewise.train.loop import Result, Start, Step, Watcher

EVERY = 0.2  # seconds between two redrawings
PARTS = ("train", "held", "val", "test")  # of the data; metrics begin with their names
WINDOW = 50  # steps over which the rate is averaged


class ProgressLine(Watcher):
    """On a terminal a line that is updated in place; elsewhere a line per epoch.

    Args:
        stream: where to write; stderr if not given.
    """

    def __init__(self, stream: IO[str] | None = None) -> None:
        self.stream = stream or sys.stderr
        self.live = self.stream.isatty()
        self._drawn = 0.0
        self._times: deque[tuple[float, int]] = deque(maxlen=WINDOW)

    def start(self, start: Start) -> None:
        """Print where a resumed run continues."""
        self.plan = start
        if start.step:
            self._print(
                f"resuming after step {start.step} of {start.epochs * start.steps_per_epoch}"
            )
        self._times.append((time.monotonic(), 0))

    def step(self, step: Step) -> None:
        """Update the line, at most five times a second."""
        now = time.monotonic()
        self._times.append((now, self._times[-1][1] + len(step.index)))
        if self.live and now - self._drawn >= EVERY:
            self._drawn = now
            self.stream.write(f"\r\x1b[K{self.describe(step)}")
            self.stream.flush()

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Print the metrics of the epoch."""
        parts = [f"epoch {record['epoch']}/{self.plan.epochs}"]
        for name, value in record.items():
            if name.split("_")[0] in PARTS and isinstance(value, int | float):
                parts.append(f"{name.replace('_', ' ')} {value:.4f}")
        self._print("  ".join([*parts, self._rate()]))

    def end(self, result: Result | None) -> None:
        """Clear the line."""
        if self.live:
            self.stream.write("\r\x1b[K")
            self.stream.flush()

    def describe(self, step: Step) -> str:
        """Return the position of the run in words."""
        total = self.plan.epochs * self.plan.steps_per_epoch
        done = (
            f"epoch {step.epoch}/{self.plan.epochs}  step {step.step}/{total}  loss {step.loss:.4f}"
        )
        return f"{done}  {self._rate()}  {clock(self._left(total - step.step))} left"

    def _rate(self) -> str:
        """Return examples per second over the last steps."""
        begin, before = self._times[0]
        now, after = self._times[-1]
        speed = f"{(after - before) / (now - begin):,.0f}" if now > begin else "-"
        return f"{speed} examples/s"

    def _left(self, steps: int) -> float:
        """Return the seconds that so many steps take."""
        taken = self._times[-1][0] - self._times[0][0]
        return steps * taken / max(1, len(self._times) - 1)

    def _print(self, line: str) -> None:
        """Print a line that stays."""
        self.stream.write(f"\r\x1b[K{line}\n" if self.live else f"{line}\n")
        self.stream.flush()


def clock(seconds: float) -> str:
    """Return hours, minutes and seconds: ``1:02:03`` or ``2:03``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
