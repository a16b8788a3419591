"""Which polygons of a partition share an edge."""

import numpy as np

from gatewise.analysis.planes.polygons import NO_LABEL, ROUNDINGS, Array, Polygons


def adjacent(polygons: Polygons) -> Array:
    """Pairs of polygons (P, 2), the smaller index first, that share a piece of an edge and not only a corner."""
    return np.unique(shared_edges(polygons)[0], axis=0).reshape(-1, 2)


def shared_edges(polygons: Polygons) -> tuple[Array, Array]:
    """Pieces of edges that two polygons share.

    Which two (P, 2), the smaller index first, and its ends (P, 2, 2).

    The edges of one cut lie on one segment, in both directions: those of one direction tile it, and
    so do those of the other. Two tilings of a segment are walked in the order of their starts; who
    is current on either side are neighbours.
    """
    inner = polygons.labels != NO_LABEL
    owner, label = polygons.owner[inner], polygons.labels[inner]
    start, end = polygons.vertices[inner], polygons.vertices[polygons.following][inner]
    order = np.argsort(label, kind="stable")
    owner, label, start, end = owner[order], label[order], start[order], end[order]
    low, high, forward, origin, direction = _along(label, start, end)
    walk = np.lexsort((low, label))
    owner, label, low, high, forward = (
        owner[walk],
        label[walk],
        low[walk],
        high[walk],
        forward[walk],
    )
    origin, direction = origin[walk], direction[walk]
    ours, theirs = _latest(forward), _latest(~forward)
    both = (ours >= 0) & (theirs >= 0)
    ours, theirs = ours[both], theirs[both]
    first, last = np.maximum(low[ours], low[theirs]), np.minimum(high[ours], high[theirs])
    shared = last - first
    longest = np.maximum(high[ours] - low[ours], high[theirs] - low[theirs])
    rounding = ROUNDINGS * np.finfo(np.float64).eps * np.abs(polygons.vertices).max(initial=0.0)
    real = (label[ours] == label[theirs]) & (shared > np.maximum(1e-12 * longest, rounding))
    real &= owner[ours] != owner[theirs]
    line = ours[real]
    ends = [origin[line] + along[real][:, None] * direction[line] for along in (first, last)]
    return np.sort(np.stack((owner[line], owner[theirs[real]]), 1), 1), np.stack(ends, 1)


def _along(label: Array, start: Array, end: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Each edge as an interval of its label's line, whether it runs forward, and the line.

    A point and a direction.

    Edges come sorted by label.
    """
    length = np.hypot(*(end - start).T)
    firsts = np.flatnonzero(np.diff(label, prepend=label[:1] - 1))
    group = np.repeat(np.arange(len(firsts)), np.diff(np.append(firsts, len(label))))
    longest = np.lexsort((-length, group))[firsts]  # its direction has the most digits
    direction = (end - start)[longest][group] / np.where(length[longest] > 0, length[longest], 1)[
        group
    ][:, None]
    origin = start[longest][group]
    a, b = ((start - origin) * direction).sum(1), ((end - origin) * direction).sum(1)
    return np.minimum(a, b), np.maximum(a, b), b > a, origin, direction


def _latest(which: Array) -> Array:
    """At each place the last index up to it where ``which`` holds; -1 before the first."""
    return (
        np.maximum.accumulate(np.where(which, np.arange(len(which)), -1))
        if len(which)
        else np.empty(0, dtype=np.int64)
    )
