"""Split polygons by which of several affine pieces is the largest, as max-pooling and maxout do."""

from collections.abc import Callable

import numpy as np

from gatewise.analysis.planes.line_splitting import Split, by_vertex_count
from gatewise.analysis.planes.polygons import (
    Array,
    Polygons,
    cut,
    join,
    signs,
    tolerance,
    values_at_vertices,
)


def split_by_pieces(
    polygons: Polygons,
    pieces: Array,
    reach: Array,
    first_label: int,
    check: Callable[[int], None] | None = None,
) -> Split:
    """Split each polygon by its own pieces (N, 3, U, k).

    ``piece`` says which is the largest, the first of equals.

    ``check`` is told how many parts there are, again and again, and may refuse. A pair of pieces
    divides a polygon only where no third one is larger: the parts are those of the maximum itself.
    """
    open_units = _undecided(polygons, pieces, reach)
    root, label = np.arange(len(polygons)), first_label
    for unit in np.flatnonzero(open_units.any(0)):
        waiting = open_units[root, unit]
        if waiting.any():
            here = np.flatnonzero(waiting)
            cells, origin, label = _cells(
                polygons.take(here), pieces[root[here], :, unit], reach, label
            )
            rest = np.flatnonzero(~waiting)
            polygons = join([polygons.take(rest), cells])
            root = np.concatenate((root[rest], root[here][origin]))
            if check is not None:
                check(len(root))
    order = np.argsort(root, kind="stable")
    polygons, root = polygons.take(order), root[order]
    return Split(polygons, root, _largest(polygons, pieces, root, reach), label)


def _undecided(polygons: Polygons, pieces: Array, reach: Array) -> Array:
    """Of which units (N, U) no piece is the largest at all vertices of the polygon."""
    n, _, units, k = pieces.shape
    found = np.empty((n, units), dtype=bool)
    for which, corners in by_vertex_count(polygons):
        own = pieces[which]
        values = (corners @ own.reshape(len(which), 3, -1)).reshape(len(which), -1, units, k)
        zero = tolerance(own, reach).max(-1, keepdims=True)
        lag = values.max(-1, keepdims=True) - values
        found[which] = ~((lag.max(1) <= 2 * zero).any(-1))
    return found


def _cells(
    polygons: Polygons, pieces: Array, reach: Array, label: int
) -> tuple[Polygons, Array, int]:
    """For one unit with pieces (N, 3, k).

    The part of each polygon where each piece is the largest, if there is one.
    """
    k, zero = pieces.shape[-1], tolerance(pieces, reach)
    parts, origins = [], []
    for i in range(k):
        part, origin = polygons, np.arange(len(polygons))
        for j in range(k):
            if i != j and len(origin):
                pair = label + origin * k * k + min(i, j) * k + max(i, j)
                lead, bound = (
                    pieces[origin, :, i] - pieces[origin, :, j],
                    zero[origin, i] + zero[origin, j],
                )
                part, kept = _where_larger(part, lead, bound, pair, first=i < j)
                origin = origin[kept]
        parts.append(part)
        origins.append(origin)
    return join(parts), np.concatenate(origins), label + len(polygons) * k * k


def _where_larger(
    polygons: Polygons, lines: Array, zero: Array, labels: Array, *, first: bool
) -> tuple[Polygons, Array]:
    """What is left of each polygon where its line is positive; equal pieces are the first one's."""
    values = values_at_vertices(polygons, lines, zero)
    above, below = signs(polygons, values)
    both, whole = np.flatnonzero(above & below), np.flatnonzero(~below & (above | first))
    kept = np.repeat(above & below, polygons.counts)
    plus, _ = (
        cut(polygons.take(both), values[kept], labels[both])
        if len(both)
        else (polygons.take(both), None)
    )
    return join([polygons.take(whole), plus]), np.concatenate((whole, both))


def _largest(polygons: Polygons, pieces: Array, parent: Array, reach: Array) -> Array:
    middles, own = polygons.middles, pieces[parent]
    x, y = middles[:, 0, None, None], middles[:, 1, None, None]
    values = own[:, 0] + own[:, 1] * x + own[:, 2] * y
    zero = tolerance(own, reach).max(-1, keepdims=True)
    return (values >= values.max(-1, keepdims=True) - zero).argmax(-1).astype(np.uint8)
