"""The compiled form of ``line_splitting.split_by_lines``, if there is a C compiler."""

import ctypes
from functools import partial
from typing import Any

import numpy as np

from gatewise.analysis.planes.line_splitting import LinesSplitter, Split
from gatewise.analysis.planes.polygons import RELATIVE_ZERO, Array, Polygons
from gatewise.errors import Limitation, NotApplicableError
from gatewise.native import COUNT, NUMBER, POINTER, compiled_library, struct_fields


class _Result(ctypes.Structure):
    """``Split`` of ``native/split.c``."""

    _fields_ = struct_fields(
        (COUNT, "polygons vertices next_label"),
        (POINTER, "coordinates labels starts parent piece"),
        (COUNT, "room vertex_room"),
    )


def native_splitter() -> LinesSplitter | None:
    """The compiled splitter, or None if there is no compiler."""
    handle = compiled_library("split")
    if handle is None:
        return None
    result = ctypes.POINTER(_Result)
    run = handle.gw_split_lines
    run.argtypes = [COUNT, COUNT, *[POINTER] * 4, *[NUMBER] * 3, COUNT, result]
    run.restype = ctypes.c_int
    handle.gw_split_free.argtypes = [result]
    handle.gw_split_free.restype = None
    return partial(_split, handle)


def _split(
    handle: ctypes.CDLL,
    polygons: Polygons,
    lines: Array,
    bounds: Array,
    first_label: int,
) -> Split:
    arrays = [
        np.ascontiguousarray(polygons.vertices, np.float64),
        np.ascontiguousarray(polygons.labels, np.int64),
        np.ascontiguousarray(polygons.starts, np.int64),
        np.ascontiguousarray(lines, np.float64),
    ]
    units = lines.shape[2]
    result: Any = _Result()
    succeeded = handle.gw_split_lines(
        len(polygons),
        units,
        *(array.ctypes.data for array in arrays),
        bounds[0],
        bounds[1],
        RELATIVE_ZERO,
        first_label,
        ctypes.byref(result),
    )
    if not succeeded:
        raise NotApplicableError(
            Limitation.TOO_LARGE,
            "partition: not enough memory for the regions",
            fix="a smaller extent",
        )
    try:
        parts = Polygons(
            _copied(result.coordinates, (result.vertices, 2), np.float64),
            _copied(result.labels, (result.vertices,), np.int64),
            _copied(result.starts, (result.polygons + 1,), np.int64),
        )
        parent = _copied(result.parent, (result.polygons,), np.int64)
        piece = _copied(result.piece, (result.polygons, units), np.uint8)
        return Split(parts, parent, piece, result.next_label)
    finally:
        handle.gw_split_free(ctypes.byref(result))


def _copied(address: int, shape: tuple[int, ...], dtype: Any) -> Array:
    """The numbers that compiled code has written, copied to a new array."""
    array = np.empty(shape, dtype)
    ctypes.memmove(array.ctypes.data, address, array.nbytes)
    return array
