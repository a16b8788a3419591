"""Where lines are measured: on the processor, or on a GPU that takes the times itself."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor, nn

_current = [torch.device("cpu")]
Placed = TypeVar("Placed", bound=Tensor | nn.Module)


@contextmanager
def measure_on(device: torch.device) -> Iterator[None]:
    """Measure on a device inside the context.

    Args:
        device: the processor or a GPU.
    """
    before = _current[0]
    _current[0] = device
    try:
        yield
    finally:
        _current[0] = before


def place(thing: Placed) -> Placed:
    """Return a tensor or module on the device that is measured.

    Args:
        thing: made on the processor.
    """
    return thing.to(_current[0])  # pyright: ignore[reportReturnType] (the same type)


def is_processor() -> bool:
    """Return whether lines are measured on the processor."""
    return _current[0].type == "cpu"


def clock() -> float:
    """Return seconds: of the processor, or for a GPU of the wall clock."""
    return time.monotonic() if _current[0].type == "cuda" else time.process_time()


def seconds_of(function: Callable[[], object]) -> float:
    """Run a function and return the seconds that it took, on a GPU by events of the device.

    Args:
        function: to be measured.
    """
    if _current[0].type != "cuda":
        start = time.process_time()
        function()
        return time.process_time() - start
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    function()
    last.record()
    last.synchronize()
    return first.elapsed_time(last) / 1000
