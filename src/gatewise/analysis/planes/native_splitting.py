"""The compiled form of :func:`gatewise.analysis.planes.line_splitting.split_by_lines`, where there is one."""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from gatewise.analysis.planes.line_splitting import Split
from gatewise.analysis.planes.polygons import ROUNDINGS, Array, Polygons, no_memory
from gatewise.native import library

Splitter = Callable[[Polygons, Array, Array, int], Split]


class _Result(ctypes.Structure):
    """``Split`` of ``native/split.c``."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("polygons", "vertices", "next_label")),
        *(
            (name, ctypes.c_void_p)
            for name in ("coordinates", "labels", "starts", "parent", "piece")
        ),
        *((name, ctypes.c_int64) for name in ("room", "vertex_room")),
    )


def native_splitter() -> Splitter | None:
    """The compiled splitter, ``None`` if there is no compiler."""
    handle = library("split").handle
    if handle is None:
        return None
    run = handle.gw_split_lines
    whole, number, pointer = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
    run.argtypes = [whole, whole, *[pointer] * 4, *[number] * 3, whole, ctypes.POINTER(_Result)]
    run.restype = ctypes.c_int
    handle.gw_split_free.argtypes = [ctypes.POINTER(_Result)]
    handle.gw_split_free.restype = None
    return lambda *given: _split(handle, *given)


def _split(
    handle: ctypes.CDLL, polygons: Polygons, lines: Array, reach: Array, first_label: int
) -> Split:
    arrays = [
        np.ascontiguousarray(each, dtype)
        for each, dtype in (
            (polygons.vertices, np.float64),
            (polygons.labels, np.int64),
            (polygons.starts, np.int64),
            (lines, np.float64),
        )
    ]
    units, result = lines.shape[2], _Result()
    rounding = ROUNDINGS * np.finfo(np.float64).eps
    pointers = [each.ctypes.data for each in arrays]
    if not handle.gw_split_lines(
        len(polygons),
        units,
        *pointers,
        reach[0],
        reach[1],
        rounding,
        first_label,
        ctypes.byref(result),
    ):
        raise no_memory()
    try:
        return _copied(result, units)
    finally:
        handle.gw_split_free(ctypes.byref(result))


def _copied(result: Any, units: int) -> Split:
    """The result in arrays of our own."""
    n, v = result.polygons, result.vertices
    made = Polygons(
        copied(result.coordinates, (v, 2), np.float64),
        copied(result.labels, (v,), np.int64),
        copied(result.starts, (n + 1,), np.int64),
    )
    parent, piece = (
        copied(result.parent, (n,), np.int64),
        copied(result.piece, (n, units), np.uint8),
    )
    return Split(made, parent, piece, result.next_label)


def copied(address: int, shape: tuple[int, ...], dtype: Any) -> Array:
    """What compiled code has written, as an array of our own."""
    made = np.empty(shape, dtype)
    ctypes.memmove(made.ctypes.data, address, made.nbytes)
    return made
