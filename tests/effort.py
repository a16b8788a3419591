"""How much work a call does, counted in function calls, so that a busy machine changes nothing."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def count_calls(action: Callable[[], Any]) -> tuple[Any, int]:
    """Run ``action`` and count the calls of Python and C functions that it makes.

    Returns:
        What ``action`` returned, and the count.
    """
    calls = 0

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        if event in ("call", "c_call"):
            calls += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        return action(), calls
    finally:
        sys.setprofile(before)


def files_run(action: Callable[[], Any]) -> tuple[Any, set[str]]:
    """Run ``action`` and collect the files whose Python functions it calls.

    Returns:
        What ``action`` returned, and the files.
    """
    files: set[str] = set()

    def profile(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        return action(), files
    finally:
        sys.setprofile(before)
