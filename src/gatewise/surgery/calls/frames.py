"""Frames of python: who called, from where, and which of them are torch's own."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import torch

from gatewise.surgery.calls.call_site import Position
from gatewise.surgery.calls.methods import code_tree, is_comprehension

_TORCH = str(Path(torch.__file__).parent)
_BETWEEN = {  # files of torch that stand between a call and what it calls
    str(Path(_TORCH) / name)
    for name in (
        "overrides.py",
        "nn/functional.py",
        "nn/modules/module.py",
        "_tensor.py",
        "utils/_contextlib.py",
    )
}


def stack(frame: FrameType | None) -> Iterator[FrameType]:
    """``frame``, its caller, and so on, up to where recording began.

    What lies beyond is not the model's.
    """
    while frame is not None and not _is_recorder(frame):
        yield frame
        frame = frame.f_back


def _is_recorder(frame: FrameType) -> bool:
    return (
        frame.f_code.co_name == "_record"
        and frame.f_globals.get("__name__") == "gatewise.surgery.calls.record"
    )


def caller(frame: FrameType) -> FrameType:
    """The first frame from ``frame`` on that is none of torch's go-betweens."""
    return next(each for each in stack(frame) if each.f_code.co_filename not in _BETWEEN)


def is_torch(frame: FrameType) -> bool:
    """Whether the frame runs a file of torch."""
    return frame.f_code.co_filename.startswith(_TORCH)


def position_of(frame: FrameType) -> Position | None:
    """Where in the source the instruction stands that ``frame`` is executing."""
    positions = getattr(frame.f_code, "co_positions", None)  # python 3.11
    if positions is None:
        return None
    line, last_line, column, last_column = next(
        itertools.islice(positions(), frame.f_lasti // 2, None)
    )
    whole = None not in (line, last_line, column, last_column)
    return (line, last_line, column, last_column) if whole else None


def function_frame(frame: FrameType) -> FrameType:
    """The frame of the function or lambda around, where ``frame`` is that of a comprehension."""
    for outer in stack(frame.f_back) if is_comprehension(frame.f_code) else ():
        if frame.f_code in code_tree(outer.f_code):
            return function_frame(outer)
    return frame
