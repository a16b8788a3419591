"""Split polygons by which of several affine pieces is the largest, as max-pooling and maxout do."""

from collections.abc import Callable

import numpy as np

from gatewise.analysis.planes.line_splitting import Split
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


def split_by_pieces(
    polygons: Polygons,
    pieces: Array,
    bounds: Array,
    first_label: int,
    check: Callable[[int], None] | None = None,
) -> Split:
    """Split each polygon by its pieces; ``piece`` of the result is the first of the largest.

    Two pieces divide a polygon only where no third piece is larger. So the parts are those of the
    maximum itself.

    Args:
        polygons: N polygons.
        pieces: (N, 3, U, k), the constant and the two slopes of k pieces of U units.
        bounds: the largest absolute value of each coordinate, (2,).
        first_label: the label of the first new edge.
        check: called after each unit with the number of parts so far; may raise.
    """
    open_units = _undecided(polygons, pieces, bounds)
    root = np.arange(len(polygons))
    label = first_label
    for unit in np.flatnonzero(open_units.any(0)):
        waiting = open_units[root, unit]
        if waiting.any():
            here = np.flatnonzero(waiting)
            of_unit = pieces[root[here], :, unit]
            cells, origin, label = _cells(polygons.take(here), of_unit, bounds, label)
            rest = np.flatnonzero(~waiting)
            polygons = join([polygons.take(rest), cells])
            root = np.concatenate((root[rest], root[here][origin]))
            if check is not None:
                check(len(root))
    order = np.argsort(root, kind="stable")
    polygons = polygons.take(order)
    root = root[order]
    return Split(polygons, root, _largest(polygons, pieces[root], bounds), label)


def _undecided(polygons: Polygons, pieces: Array, bounds: Array) -> Array:
    """The units (N, U) of which no piece is the largest at all vertices of the polygon."""
    n, _, units, k = pieces.shape
    undecided = np.empty((n, units), dtype=bool)
    for which, corners in by_vertex_count(polygons):
        of_polygons = pieces[which]
        values = corners @ of_polygons.reshape(len(which), 3, -1)
        values = values.reshape(len(which), -1, units, k)
        zero = tolerance(of_polygons, bounds).max(-1, keepdims=True)
        lag = values.max(-1, keepdims=True) - values
        undecided[which] = ~((lag.max(1) <= 2 * zero).any(-1))
    return undecided


def _cells(
    polygons: Polygons,
    pieces: Array,
    bounds: Array,
    label: int,
) -> tuple[Polygons, Array, int]:
    """For one unit with pieces (N, 3, k), the part of each polygon where each piece is largest."""
    k = pieces.shape[-1]
    zero = tolerance(pieces, bounds)
    parts = []
    origins = []
    for i in range(k):
        part = polygons
        origin = np.arange(len(polygons))
        for j in range(k):
            if i != j and len(origin):
                lead = pieces[origin, :, i] - pieces[origin, :, j]
                bound = zero[origin, i] + zero[origin, j]
                # Both sides of an edge get the same label.
                labels = label + origin * k * k + min(i, j) * k + max(i, j)
                part, kept = _where_larger(part, lead, bound, labels, first=i < j)
                origin = origin[kept]
        parts.append(part)
        origins.append(origin)
    return join(parts), np.concatenate(origins), label + len(polygons) * k * k


def _where_larger(
    polygons: Polygons,
    lines: Array,
    zero: Array,
    labels: Array,
    *,
    first: bool,
) -> tuple[Polygons, Array]:
    """The part of each polygon where its line is positive; also where it is zero if ``first``."""
    values = values_at_vertices(polygons, lines, zero)
    above, below = signs(polygons, values)
    crossed = above & below
    cut_ones = np.flatnonzero(crossed)
    whole = np.flatnonzero(~below & (above | first))
    plus = polygons.take(cut_ones)
    if len(cut_ones):
        plus, _ = cut(plus, values[np.repeat(crossed, polygons.counts)], labels[cut_ones])
    return join([polygons.take(whole), plus]), np.concatenate((whole, cut_ones))


def _largest(polygons: Polygons, pieces: Array, bounds: Array) -> Array:
    """The first of the largest pieces (N, 3, U, k) on each polygon: (N, U) uint8."""
    middles = polygons.middles
    x = middles[:, 0, None, None]
    y = middles[:, 1, None, None]
    values = pieces[:, 0] + pieces[:, 1] * x + pieces[:, 2] * y
    zero = tolerance(pieces, bounds).max(-1, keepdims=True)
    return (values >= values.max(-1, keepdims=True) - zero).argmax(-1).astype(np.uint8)
