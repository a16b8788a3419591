"""How much work a call does, counted in function calls, so that a busy machine changes nothing."""

import sys
from collections.abc import Callable
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
