"""Stop a run: Ctrl-C once ends after the current step and saves, twice ends at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Halted(Exception):  # noqa: N818 - not an error: a way to end
    """The run was asked to stop between two steps."""


class StopSignal:
    """Whether a stop was asked for, by Ctrl-C or by the termination signal of a scheduler.

    Args:
        tell: called when the signal arrives.
    """

    def __init__(self, tell: Callable[[], None] | None = None) -> None:
        self.asked = False
        self.tell = tell

    def halt(self) -> None:
        """Raise :class:`Halted` if a stop was asked for."""
        if self.asked:
            raise Halted

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Catch the signals for the block; only the main thread can catch them."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {}
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, self._ask)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: ask for a stop, and let the next Ctrl-C end the process."""
        self.asked = True
        # The system's handler, not Python's: it ends the process even in the middle of a long step.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if self.tell is not None:
            self.tell()
