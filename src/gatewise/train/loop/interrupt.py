"""Ctrl-C once: end after the step at hand, with everything saved.

Twice: end at once, which loses no checkpoint.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Halted(Exception):  # noqa: N818 - not an error: a way to end
    """The run was asked to stop while it was busy between two steps."""


class StopSignal:
    """Whether someone asked the run to stop.

    A termination signal, as schedulers send it, asks in the same way.
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
        """Catch the signals for the block; nothing is caught where this is not the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        # The system's own handler, not Python's: it ends the process even in the middle of a long
        # step.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if self.tell is not None:
            self.tell()
