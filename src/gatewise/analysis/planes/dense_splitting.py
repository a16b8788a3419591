"""Carry the window of a plane through a chain of dense layers by ``native/split.c``.

See Note [Dense chains].
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from gatewise.analysis.planes.dense_layers import DenseLayer
from gatewise.analysis.planes.native_splitting import copied
from gatewise.analysis.planes.polygons import (
    ROUNDINGS,
    Array,
    Polygons,
    join,
    names_of_units,
    no_memory,
    too_many_regions,
)
from gatewise.native import library

LANES = 8  # of a vector: rows of weights are filled up to whole ones
CALLS = 16  # into which the work is divided, so that it can be interrupted
FINE, TOO_MANY = 1, 2
Found = tuple[Polygons, Array, Array]  # polygons, patterns (N,), maps (N, 3, o)


class _Dense(ctypes.Structure):
    """``Dense`` of ``native/split.c``."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("inputs", "outputs", "units")),
        *((name, ctypes.c_void_p) for name in ("weight", "bias", "slope", "random")),
    )


class _Regions(ctypes.Structure):
    """``Regions`` of ``native/split.c``."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("polygons", "vertices", "next_label", "limit")),
        *(
            (name, ctypes.c_void_p)
            for name in ("coordinates", "labels", "starts", "pattern", "maps")
        ),
        *((name, ctypes.c_int64) for name in ("room", "vertex_room")),
    )


def split_dense(
    layers: Sequence[DenseLayer], window: Polygons, plane: Tensor, reach: Array, limit: int
) -> Found:
    """Polygons, patterns (N,) and maps of the last layer (N, 3, o).

    ``plane`` is the input (3, inputs).
    """
    run = _Run(layers, reach, limit)
    start = window, np.zeros(len(window), np.uint64), plane.double().numpy()[None]
    first = run(0, 1, start)
    if len(layers) == 1:
        return first
    count = len(first[0])
    size = -(-count // CALLS)
    found = [
        run(1, len(layers), _part(first, low, min(low + size, count)))
        for low in range(0, count, size)
    ]
    polygons, patterns, maps = zip(*found, strict=True)
    return join(list(polygons)), np.concatenate(patterns), np.concatenate(maps)


def _part(found: Found, low: int, high: int) -> Found:
    polygons, patterns, maps = found
    return polygons.slice(low, high), patterns[low:high], maps[low:high]


@dataclass
class _Run:
    layers: Sequence[DenseLayer]
    reach: Array  # (2,)
    limit: int
    label: int = 0
    done: int = 0  # regions that are finished

    def __post_init__(self) -> None:
        self.library: Any = library("split").handle
        whole, number, pointer = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
        self.library.gw_split_dense.argtypes = [
            whole,
            pointer,
            whole,
            *[pointer] * 5,
            *[number] * 3,
            whole,
            whole,
            pointer,
        ]
        self.library.gw_regions_free.argtypes = [pointer]
        self.library.gw_regions_free.restype = None
        self.kept: list[Array] = []  # what the structures point to
        self.structures = (_Dense * len(self.layers))(*self._structures())

    def _structures(self) -> list[_Dense]:
        found, number = [], 0
        for layer in self.layers:
            outputs, inputs = layer.weight.shape
            units = -(-outputs // LANES) * LANES
            fill = lambda x, units=units: self._address(
                np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, units - x.shape[-1])])
            )  # noqa: E731
            slope = random = None
            if layer.slope is not None:
                slope, random = fill(layer.slope.numpy()), fill(names_of_units(number, outputs))
                number += 1
            weight, bias = fill(layer.weight.T.numpy()), fill(layer.bias.numpy())
            found.append(_Dense(inputs, outputs, units, weight, bias, slope, random))
        return found

    def _address(self, x: Array) -> int:
        self.kept.append(np.ascontiguousarray(x))
        return self.kept[-1].ctypes.data

    def __call__(self, first: int, last: int, given: Found) -> Found:
        """Carry what the layer ``first`` is given through the layers up to ``last``, which is left out."""
        polygons, patterns, maps = given
        arrays = [
            *map(
                np.ascontiguousarray,
                (polygons.vertices, polygons.labels, polygons.starts, patterns, maps),
            )
        ]
        layers = ctypes.addressof(self.structures) + first * ctypes.sizeof(_Dense)
        rounding, result = ROUNDINGS * np.finfo(np.float64).eps, _Regions()
        answer = self.library.gw_split_dense(
            last - first,
            layers,
            len(polygons),
            *(each.ctypes.data for each in arrays),
            *self.reach,
            rounding,
            self.label,
            self.limit - self.done,
            ctypes.addressof(result),
        )
        if answer == TOO_MANY:
            raise too_many_regions(self.limit + 1, self.limit)
        if answer != FINE:
            raise no_memory()
        try:
            return self._taken(result, last)
        finally:
            self.library.gw_regions_free(ctypes.addressof(result))

    def _taken(self, result: Any, last: int) -> Found:
        """The result in arrays of our own."""
        n, v = result.polygons, result.vertices
        self.label = result.next_label
        if last == len(self.layers):
            self.done += n
        polygons = Polygons(
            copied(result.coordinates, (v, 2), np.float64),
            copied(result.labels, (v,), np.int64),
            copied(result.starts, (n + 1,), np.int64),
        )
        maps = copied(result.maps, (n, 3, len(self.layers[last - 1].bias)), np.float64)
        return polygons, copied(result.pattern, (n,), np.uint64), maps
