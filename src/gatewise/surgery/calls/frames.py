"""Python frames: which function made a call, from where, and which frames belong to torch."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import torch

from gatewise.surgery.calls.call_site import Position
from gatewise.surgery.calls.methods import code_tree, is_comprehension

_TORCH = str(Path(torch.__file__).parent)
# Files of torch whose frames are between a call in the model's code and the function it calls.
_INTERMEDIATE = {
    str(Path(_TORCH, "overrides.py")),
    str(Path(_TORCH, "nn/functional.py")),
    str(Path(_TORCH, "nn/modules/module.py")),
    str(Path(_TORCH, "_tensor.py")),
    str(Path(_TORCH, "utils/_contextlib.py")),
}


def stack(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield ``frame``, its caller and so on, up to the recorder, where the model's run begins."""
    while frame is not None and not _is_recorder(frame):
        yield frame
        frame = frame.f_back


def _is_recorder(frame: FrameType) -> bool:
    """Whether the frame is that of :func:`record.record_run`, which runs the model."""
    return (
        frame.f_code.co_name == "record_run"
        and frame.f_globals.get("__name__") == "gatewise.surgery.calls.record"
    )


def caller(frame: FrameType) -> FrameType:
    """Return the first frame from ``frame`` on that is not one of torch's intermediate frames."""
    return next(outer for outer in stack(frame) if outer.f_code.co_filename not in _INTERMEDIATE)


def is_torch(frame: FrameType) -> bool:
    """Whether the frame runs a file of torch."""
    return frame.f_code.co_filename.startswith(_TORCH)


def position_of(frame: FrameType) -> Position | None:
    """Return the source position of the instruction that ``frame`` is executing, if known."""
    positions = getattr(frame.f_code, "co_positions", None)  # from Python 3.11 on
    if positions is None:
        return None
    # An instruction has two bytes.
    position = next(itertools.islice(positions(), frame.f_lasti // 2, None))
    line, last_line, column, last_column = position
    return None if None in position else (line, last_line, column, last_column)


def function_frame(frame: FrameType) -> FrameType:
    """Return the frame of the function around a comprehension, or ``frame`` if it is none."""
    if is_comprehension(frame.f_code):
        for outer in stack(frame.f_back):
            if frame.f_code in code_tree(outer.f_code):
                return function_frame(outer)
    return frame
