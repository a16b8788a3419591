"""Propagate the window of a plane through a chain of dense layers by ``native/split.c``.

See Note [Dense chains] in ``dense_layers.py``.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from gatewise.analysis.planes.dense_layers import DenseLayer
from gatewise.analysis.planes.native_splitting import copied, copied_polygons
from gatewise.analysis.planes.polygons import (
    RELATIVE_ZERO,
    Array,
    Polygons,
    join,
    names_of_units,
    no_memory,
    too_many_regions,
)
from gatewise.native import COUNT, NUMBER, POINTER, compiled_library, struct_fields

LANES = 8  # numbers in a vector register: rows of weights are padded to a multiple
CALLS = 16  # parts of the work, so that it can be interrupted between them
SUCCESS = 1
TOO_MANY = 2
Regions = tuple[Polygons, Array, Array]  # polygons, patterns (N,), maps (N, 3, o)


class _Dense(ctypes.Structure):
    """``Dense`` of ``native/split.c``."""

    _fields_ = struct_fields(
        (COUNT, "inputs outputs units"),
        (POINTER, "weight bias slope random"),
    )


class _Regions(ctypes.Structure):
    """``Regions`` of ``native/split.c``."""

    _fields_ = struct_fields(
        (COUNT, "polygons vertices next_label limit"),
        (POINTER, "coordinates labels starts pattern maps"),
        (COUNT, "room vertex_room"),
    )


def split_dense(
    layers: Sequence[DenseLayer],
    window: Polygons,
    plane: Tensor,
    bounds: Array,
    limit: int,
) -> Regions:
    """Split a window into the regions of a chain of dense layers.

    Args:
        layers: the chain.
        window: the window, as one polygon.
        plane: the input as an affine function of the coordinates, (3, inputs).
        bounds: the largest absolute value of each coordinate, (2,).
        limit: the largest number of regions.

    Returns:
        Polygons, patterns (N,) and the maps of the last layer (N, 3, o).
    """
    run = _DenseRun(layers, bounds, limit)
    start = window, np.zeros(len(window), np.uint64), plane.double().numpy()[None]
    first = run(0, 1, start)
    if len(layers) == 1:
        return first
    polygons, patterns, maps = first
    count = len(polygons)
    size = -(-count // CALLS)
    results = []
    for low in range(0, count, size):
        high = min(low + size, count)
        part = polygons.slice(low, high), patterns[low:high], maps[low:high]
        results.append(run(1, len(layers), part))
    polygons, patterns, maps = zip(*results, strict=True)
    return join(list(polygons)), np.concatenate(patterns), np.concatenate(maps)


class _DenseRun:
    """The layers as C structs, and the labels and regions used so far."""

    def __init__(self, layers: Sequence[DenseLayer], bounds: Array, limit: int) -> None:
        self.layers = layers
        self.bounds = bounds
        self.limit = limit
        self.label = 0
        self.finished = 0  # regions that have passed the last layer
        self.library: Any = compiled_library("split")
        self.library.gw_split_dense.argtypes = [
            COUNT,
            POINTER,
            COUNT,
            *[POINTER] * 5,
            *[NUMBER] * 3,
            COUNT,
            COUNT,
            POINTER,
        ]
        self.library.gw_regions_free.argtypes = [POINTER]
        self.library.gw_regions_free.restype = None
        self.arrays: list[Array] = []  # the structs point to them
        self.structs = (_Dense * len(layers))(*self._structs())

    def _structs(self) -> list[_Dense]:
        structs = []
        number = 0
        for layer in self.layers:
            outputs, inputs = layer.weight.shape
            units = -(-outputs // LANES) * LANES
            weight = self._padded(layer.weight.T.numpy(), units)
            bias = self._padded(layer.bias.numpy(), units)
            slope = random = None
            if layer.slope is not None:
                slope = self._padded(layer.slope.numpy(), units)
                random = self._padded(names_of_units(number, outputs), units)
                number += 1
            structs.append(_Dense(inputs, outputs, units, weight, bias, slope, random))
        return structs

    def _padded(self, x: Array, units: int) -> int:
        """The address of a copy with zeros up to ``units`` along the last axis."""
        zeros = [(0, 0)] * (x.ndim - 1) + [(0, units - x.shape[-1])]
        self.arrays.append(np.ascontiguousarray(np.pad(x, zeros)))
        return self.arrays[-1].ctypes.data

    def __call__(self, first: int, last: int, regions: Regions) -> Regions:
        """Propagate regions before layer ``first`` to those before layer ``last``."""
        polygons, patterns, maps = regions
        arrays = (polygons.vertices, polygons.labels, polygons.starts, patterns, maps)
        arrays = [np.ascontiguousarray(array) for array in arrays]
        result: Any = _Regions()
        status = self.library.gw_split_dense(
            last - first,
            ctypes.addressof(self.structs) + first * ctypes.sizeof(_Dense),
            len(polygons),
            *(array.ctypes.data for array in arrays),
            *self.bounds,
            RELATIVE_ZERO,
            self.label,
            self.limit - self.finished,
            ctypes.addressof(result),
        )
        if status == TOO_MANY:
            raise too_many_regions(self.limit + 1, self.limit)
        if status != SUCCESS:
            raise no_memory()
        try:
            return self._copied(result, last)
        finally:
            self.library.gw_regions_free(ctypes.addressof(result))

    def _copied(self, result: Any, last: int) -> Regions:
        count = result.polygons
        self.label = result.next_label
        if last == len(self.layers):
            self.finished += count
        outputs = len(self.layers[last - 1].bias)
        maps = copied(result.maps, (count, 3, outputs), np.float64)
        return copied_polygons(result), copied(result.pattern, (count,), np.uint64), maps
