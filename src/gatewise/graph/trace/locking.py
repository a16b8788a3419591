"""A lock for work that changes settings of the whole process while it runs.

``torch.export`` and ``make_fx`` set flags and patch functions of torch, such as the flag that
``torch.compiler.is_compiling()`` returns. Two threads that do so at once would each restore what
the other one has set.
"""

import functools
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_LOCK = threading.RLock()


def one_at_a_time(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function``, which waits until no other thread runs a function of this kind."""

    @functools.wraps(function)
    def wait_and_call(*args: P.args, **options: P.kwargs) -> R:
        with _LOCK:
            return function(*args, **options)

    return wait_and_call
