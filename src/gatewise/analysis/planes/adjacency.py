"""Which polygons of a partition share an edge."""

from dataclasses import dataclass

import numpy as np

from gatewise.analysis.planes.polygons import NO_LABEL, RELATIVE_ZERO, Array, Polygons


def adjacent(polygons: Polygons) -> Array:
    """Pairs of polygons (P, 2), the smaller index first, that share more than a corner."""
    return np.unique(shared_edges(polygons)[0], axis=0).reshape(-1, 2)


def shared_edges(polygons: Polygons) -> tuple[Array, Array]:
    """Find the pieces of edges that two polygons share.

    The edges of one cut are on one segment, in both directions. Those of one direction cover the
    segment without gaps, and so do those of the other. Both coverings are traversed in the order
    of their starts. The current edges of both directions belong to neighbours.

    Returns:
        The two polygons of each piece (P, 2), the smaller index first, and its ends (P, 2, 2).
    """
    edges = _inner_edges(polygons)
    one = _latest(edges.forward)
    other = _latest(~edges.forward)
    exist = (one >= 0) & (other >= 0)
    one = one[exist]
    other = other[exist]
    low, high = edges.low, edges.high
    first = np.maximum(low[one], low[other])
    last = np.minimum(high[one], high[other])
    longest = np.maximum(high[one] - low[one], high[other] - low[other])
    rounding = RELATIVE_ZERO * np.abs(polygons.vertices).max(initial=0.0)
    is_shared = last - first > np.maximum(1e-12 * longest, rounding)
    is_shared &= edges.label[one] == edges.label[other]
    is_shared &= edges.owner[one] != edges.owner[other]
    line = one[is_shared]
    pairs = np.stack((edges.owner[line], edges.owner[other[is_shared]]), 1)
    ends = []
    for along in (first, last):
        ends.append(edges.origin[line] + along[is_shared][:, None] * edges.direction[line])
    return np.sort(pairs, 1), np.stack(ends, 1)


@dataclass(frozen=True)
class _Edges:
    """E edges as intervals of the lines of their labels, sorted by label and start.

    Attributes:
        owner: (E,), the polygon of each edge.
        label: (E,), the cut that it is on.
        low: (E,), its start along the line.
        high: (E,), its end.
        forward: (E,), whether it runs in the direction of the line.
        origin: (E, 2), a point of the line.
        direction: (E, 2), the unit vector of the line.
    """

    owner: Array
    label: Array
    low: Array
    high: Array
    forward: Array
    origin: Array
    direction: Array


def _inner_edges(polygons: Polygons) -> _Edges:
    """The edges that are not on the border of the window."""
    inner = np.flatnonzero(polygons.labels != NO_LABEL)
    inner = inner[np.argsort(polygons.labels[inner], kind="stable")]
    owner = polygons.owner[inner]
    label = polygons.labels[inner]
    start = polygons.vertices[inner]
    along = polygons.vertices[polygons.following][inner] - start
    length = np.hypot(*along.T)
    firsts = np.flatnonzero(np.diff(label, prepend=label[:1] - 1))
    group = np.repeat(np.arange(len(firsts)), np.diff(np.append(firsts, len(label))))
    longest = np.lexsort((-length, group))[firsts]  # its direction is the most precise
    scale = np.where(length[longest] > 0, length[longest], 1)
    direction = along[longest][group] / scale[group][:, None]
    origin = start[longest][group]
    a = ((start - origin) * direction).sum(1)
    b = ((polygons.vertices[polygons.following][inner] - origin) * direction).sum(1)
    low = np.minimum(a, b)
    order = np.lexsort((low, label))
    columns = (owner, label, low, np.maximum(a, b), b > a, origin, direction)
    return _Edges(*(column[order] for column in columns))


def _latest(which: Array) -> Array:
    """At each place the last index up to it where ``which`` is true; -1 before the first."""
    if not len(which):
        return np.empty(0, dtype=np.int64)
    return np.maximum.accumulate(np.where(which, np.arange(len(which)), -1))
