"""Split polygons by the lines on which units change their sign.

Numpy's form of ``native/split.c``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gatewise.analysis.planes.polygons import (
    Array,
    Polygons,
    cut,
    join,
    signs,
    tolerance,
    values_at_vertices,
)


@dataclass(frozen=True)
class Split:
    """Polygons cut so that every unit is in one piece on each.

    Where each came from, and which piece it is in.
    """

    polygons: Polygons
    parent: Array  # (N,) index of the polygon it is a part of
    piece: Array  # (N, U) uint8
    next_label: int


def split_by_lines(polygons: Polygons, lines: Array, reach: Array, first_label: int) -> Split:
    """Split each polygon by its own lines (N, 3, U).

    Piece 1 is where a line is positive, 0 where it is not.

    Every sweep cuts each polygon that is not done by one of the lines that are left for it.
    """
    polygon, unit = np.nonzero(_crossed(polygons, lines, reach))
    ends = np.cumsum(np.bincount(polygon, minlength=len(polygons)))
    root = np.arange(len(polygons))
    turn = np.concatenate(([0], ends[:-1]))
    done: list[tuple[Polygons, Array]] = []
    label = first_label
    while True:
        ready = turn >= ends[root]
        if ready.any():
            done.append((polygons.take(np.flatnonzero(ready)), root[ready]))
            waiting = np.flatnonzero(~ready)
            polygons, root, turn = polygons.take(waiting), root[waiting], turn[waiting]
        if not len(root):
            break
        polygons, origin, label = _sweep(polygons, lines[root, :, unit[turn]], reach, label)
        root, turn = root[origin], turn[origin] + 1
    parent = np.concatenate([each for _, each in done])
    order = np.argsort(parent, kind="stable")
    result, parent = join([each for each, _ in done]).take(order), parent[order]
    return Split(result, parent, _sides(result, lines, parent), label)


def _sweep(
    polygons: Polygons, lines: Array, reach: Array, label: int
) -> tuple[Polygons, Array, int]:
    """Cut each polygon by its one line (N, 3), where it crosses.

    The parts, and which polygon each is of.
    """
    values = values_at_vertices(polygons, lines, tolerance(lines, reach))
    above, below = signs(polygons, values)
    both = np.flatnonzero(above & below)
    if not len(both):
        return polygons, np.arange(len(polygons)), label
    whole = np.flatnonzero(~(above & below))
    crossing = polygons.take(both)
    kept = np.repeat(above & below, polygons.counts)
    plus, minus = cut(crossing, values[kept], label + np.arange(len(both)))
    return (
        join([polygons.take(whole), plus, minus]),
        np.concatenate((whole, both, both)),
        label + len(both),
    )


def by_vertex_count(polygons: Polygons) -> Iterator[tuple[Array, Array]]:
    """Polygons of equal vertex number together.

    Their indices (n,), and their vertices as (n, count, 3), with a 1.
    """
    counts = polygons.counts
    for count in np.unique(counts):
        which = np.flatnonzero(counts == count)
        index = polygons.starts[:-1][which][:, None] + np.arange(count)
        yield which, np.concatenate((np.ones((*index.shape, 1)), polygons.vertices[index]), -1)


def _crossed(polygons: Polygons, lines: Array, reach: Array) -> Array:
    """Which lines (N, U) have vertices on both sides."""
    found = np.empty((len(polygons), lines.shape[2]), dtype=bool)
    for which, corners in by_vertex_count(polygons):
        own = lines[which]
        values, zero = corners @ own, tolerance(own, reach)
        found[which] = (values.max(1) > zero) & (values.min(1) < -zero)
    return found


def _sides(polygons: Polygons, lines: Array, parent: Array) -> Array:
    middles = polygons.middles
    own = lines[parent]
    return (own[:, 0] + own[:, 1] * middles[:, :1] + own[:, 2] * middles[:, 1:] > 0).astype(
        np.uint8
    )
