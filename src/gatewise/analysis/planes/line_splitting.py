"""Split polygons by the lines on which units change their sign: ``native/split.c`` in numpy."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gatewise.analysis.planes.polygons import (
    Array,
    Polygons,
    by_vertex_count,
    cut,
    join,
    signs,
    tolerance,
    values_at_vertices,
)


@dataclass(frozen=True)
class Split:
    """Polygons that were cut so that every unit is in one piece on each.

    Attributes:
        polygons: the N parts.
        parent: (N,), the index of the polygon that a part belongs to.
        piece: (N, U) uint8, the piece that each unit is in.
        next_label: the first label that no edge has.
    """

    polygons: Polygons
    parent: Array
    piece: Array
    next_label: int


# Polygons, lines (N, 3, U), the largest coordinates, and the label of the first new edge.
LinesSplitter = Callable[[Polygons, Array, Array, int], Split]


def split_by_lines(polygons: Polygons, lines: Array, bounds: Array, first_label: int) -> Split:
    """Split each polygon by its lines.

    Piece 1 is where a line is positive, piece 0 elsewhere. Every sweep cuts each unfinished
    polygon by one of its remaining lines.

    Args:
        polygons: N polygons.
        lines: (N, 3, U), the constant and the two slopes of each line.
        bounds: the largest absolute value of each coordinate, (2,).
        first_label: the label of the first new edge.
    """
    polygon, unit = np.nonzero(_crossed(polygons, lines, bounds))
    ends = np.cumsum(np.bincount(polygon, minlength=len(polygons)))
    root = np.arange(len(polygons))
    # The next line of each polygon, as an index of ``unit``.
    turn = np.concatenate(([0], ends[:-1]))
    finished: list[Polygons] = []
    parents: list[Array] = []
    label = first_label
    while True:
        ready = turn >= ends[root]
        if ready.any():
            finished.append(polygons.take(np.flatnonzero(ready)))
            parents.append(root[ready])
            waiting = np.flatnonzero(~ready)
            polygons = polygons.take(waiting)
            root = root[waiting]
            turn = turn[waiting]
        if not len(root):
            break
        polygons, origin, label = _sweep(polygons, lines[root, :, unit[turn]], bounds, label)
        root = root[origin]
        turn = turn[origin] + 1
    parent = np.concatenate(parents)
    order = np.argsort(parent, kind="stable")
    result = join(finished).take(order)
    parent = parent[order]
    return Split(result, parent, _sides(result, lines[parent]), label)


def _sweep(
    polygons: Polygons,
    lines: Array,
    bounds: Array,
    label: int,
) -> tuple[Polygons, Array, int]:
    """Cut each polygon by its line (N, 3), if the line crosses it.

    Returns:
        The parts, the polygon that each belongs to, and the next label.
    """
    values = values_at_vertices(polygons, lines, tolerance(lines, bounds))
    above, below = signs(polygons, values)
    crossed = above & below
    cut_ones = np.flatnonzero(crossed)
    if not len(cut_ones):
        return polygons, np.arange(len(polygons)), label
    whole = np.flatnonzero(~crossed)
    of_vertices = np.repeat(crossed, polygons.counts)
    labels = label + np.arange(len(cut_ones))
    plus, minus = cut(polygons.take(cut_ones), values[of_vertices], labels)
    return (
        join([polygons.take(whole), plus, minus]),
        np.concatenate((whole, cut_ones, cut_ones)),
        label + len(cut_ones),
    )


def _crossed(polygons: Polygons, lines: Array, bounds: Array) -> Array:
    """Which lines (N, U) have vertices on both sides."""
    crossed = np.empty((len(polygons), lines.shape[2]), dtype=bool)
    for which, corners in by_vertex_count(polygons):
        values = corners @ lines[which]
        zero = tolerance(lines[which], bounds)
        crossed[which] = (values.max(1) > zero) & (values.min(1) < -zero)
    return crossed


def _sides(polygons: Polygons, lines: Array) -> Array:
    """Whether each line (N, 3, U) is positive on its polygon: (N, U) uint8."""
    middles = polygons.middles
    values = lines[:, 0] + lines[:, 1] * middles[:, :1] + lines[:, 2] * middles[:, 1:]
    return (values > 0).astype(np.uint8)
