"""Many convex polygons in flat arrays, and cutting them all at once."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gatewise.errors import Limitation, NotApplicableError

Array = np.ndarray
NO_LABEL = -1  # the label of an edge on the border of the window
# A value smaller than this share of its terms is zero: it may be the result of 64 roundings.
RELATIVE_ZERO = 64 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Polygons:
    """N convex polygons, counter-clockwise, in flat arrays.

    Attributes:
        vertices: (V, 2) float64.
        labels: (V,) int64, the number of the cut that the edge from a vertex to the next one of its
            polygon is on. Two polygons are neighbours only along edges of the same label.
        starts: (N + 1,) int64. Polygon ``i`` has the vertices ``starts[i]`` to ``starts[i + 1]``.
    """

    vertices: Array
    labels: Array
    starts: Array

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def counts(self) -> Array:
        """The number of vertices of each polygon (N,)."""
        return np.diff(self.starts)

    @property
    def owner(self) -> Array:
        """The polygon of each vertex (V,)."""
        return np.repeat(np.arange(len(self)), self.counts)

    @property
    def following(self) -> Array:
        """The vertex after each vertex (V,)."""
        after = np.arange(1, len(self.vertices) + 1)
        after[self.starts[1:] - 1] = self.starts[:-1]
        return after

    @property
    def middles(self) -> Array:
        """The mean of the vertices of each polygon (N, 2), which is inside a convex polygon."""
        return np.add.reduceat(self.vertices, self.starts[:-1]) / self.counts[:, None]

    @property
    def areas(self) -> Array:
        """The area of each polygon (N,)."""
        _, cross = self._fan()
        return 0.5 * np.add.reduceat(cross, self.starts[:-1])

    @property
    def centroids(self) -> Array:
        """The centroid of each polygon (N, 2).

        If rounding makes the area zero, it is the mean of the vertices.
        """
        sums, cross = self._fan()
        moments = np.add.reduceat(sums * cross[:, None], self.starts[:-1])
        weights = 3 * np.add.reduceat(cross, self.starts[:-1])
        is_thin = weights <= 0
        offsets = moments / np.where(is_thin, 1, weights)[:, None]
        first = self.vertices[self.starts[:-1]]
        return np.where(is_thin[:, None], self.middles, first + offsets)

    def _fan(self) -> tuple[Array, Array]:
        """The triangles of each polygon's first vertex and its edges.

        Coordinates are relative to the first vertex, so that a polygon far from the origin keeps
        its digits.

        Returns:
            The sum of the two ends of each edge (V, 2), and twice the triangle's area (V,).
        """
        first = self.vertices[self.starts[:-1]][self.owner]
        a = self.vertices - first
        b = self.vertices[self.following] - first
        return a + b, a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]

    def take(self, which: Array) -> "Polygons":
        """The polygons with these indices, in that order; an index may be repeated."""
        counts = self.counts[which]
        starts = np.concatenate(([0], np.cumsum(counts)))
        index = np.arange(starts[-1]) + np.repeat(self.starts[:-1][which] - starts[:-1], counts)
        return Polygons(self.vertices[index], self.labels[index], starts)

    def slice(self, first: int, last: int) -> "Polygons":
        """The polygons from ``first`` up to, without, ``last``."""
        low = self.starts[first]
        high = self.starts[last]
        return Polygons(
            self.vertices[low:high],
            self.labels[low:high],
            self.starts[first : last + 1] - low,
        )


def by_vertex_count(polygons: Polygons) -> Iterator[tuple[Array, Array]]:
    """Yield polygons of equal vertex count together.

    Yields:
        Their indices (n,), and their vertices as (n, count, 3), with a leading 1.
    """
    counts = polygons.counts
    for count in np.unique(counts):
        which = np.flatnonzero(counts == count)
        index = polygons.starts[:-1][which][:, None] + np.arange(count)
        yield which, np.concatenate((np.ones((*index.shape, 1)), polygons.vertices[index]), -1)


def rectangle(low: tuple[float, float], high: tuple[float, float]) -> Polygons:
    """The rectangle from corner ``low`` to corner ``high``, as one polygon."""
    corners = np.array(
        [[low[0], low[1]], [high[0], low[1]], [high[0], high[1]], [low[0], high[1]]],
        dtype=np.float64,
    )
    return Polygons(corners, np.full(4, NO_LABEL), np.array([0, 4]))


def join(parts: list[Polygons]) -> Polygons:
    """Concatenate polygons."""
    counts = np.concatenate([part.counts for part in parts])
    starts = np.concatenate(([0], np.cumsum(counts)))
    return Polygons(
        np.concatenate([part.vertices for part in parts]),
        np.concatenate([part.labels for part in parts]),
        starts,
    )


def names_of_units(layer: int, count: int) -> Array:
    """Random numbers (count,) uint64 for the units of a layer.

    The sum of the numbers of all units in piece 1 identifies a pattern of pieces.
    """
    return np.random.default_rng(layer).integers(2**63, size=count, dtype=np.uint64)


def too_many_regions(got: int, limit: int) -> NotApplicableError:
    """The error for a window with more regions than allowed."""
    return NotApplicableError(
        Limitation.TOO_MANY_REGIONS,
        "partition: the window has more regions than limit",
        got=f"{got} so far",
        allowed=f"limit={limit}",
        fix="a smaller extent, or a larger limit (a region takes a few hundred bytes)",
    )


def tolerance(lines: Array, bounds: Array) -> Array:
    """The bound below which a value of a line may be zero, (N, ...).

    Args:
        lines: (N, 3, ...), constants and slopes.
        bounds: the largest absolute value of each coordinate, (2,).
    """
    sizes = np.abs(lines)
    return RELATIVE_ZERO * (sizes[:, 0] + bounds[0] * sizes[:, 1] + bounds[1] * sizes[:, 2])


def values_at_vertices(polygons: Polygons, lines: Array, zero: Array) -> Array:
    """The values (V,) of one line per polygon (N, 3) at the polygon's vertices.

    A value whose size is at most the polygon's entry of ``zero`` (N,) becomes exactly 0.
    """
    lines = lines[polygons.owner]
    x, y = polygons.vertices.T
    values = lines[:, 0] + lines[:, 1] * x + lines[:, 2] * y
    values[np.abs(values) <= zero[polygons.owner]] = 0.0
    return values


def signs(polygons: Polygons, values: Array) -> tuple[Array, Array]:
    """Whether each polygon has a vertex with a positive value, and with a negative one: (N,)."""
    first = polygons.starts[:-1]
    return np.maximum.reduceat(values, first) > 0, np.minimum.reduceat(values, first) < 0


def cut(polygons: Polygons, values: Array, labels: Array) -> tuple[Polygons, Polygons]:
    """Cut polygons that have positive and negative values at their vertices.

    Args:
        polygons: N polygons.
        values: (V,), the value at each vertex.
        labels: (N,), the labels of the new edges.

    Returns:
        The parts with positive values, and those with negative values.
    """
    after = polygons.following
    there = values[after]
    # The product of the values themselves could underflow to 0.
    crosses = np.sign(values) * np.sign(there) < 0
    share = np.divide(values, values - there, out=np.zeros_like(values), where=crosses)
    points = polygons.vertices + share[:, None] * (polygons.vertices[after] - polygons.vertices)
    new_labels = labels[polygons.owner]
    return (
        _side(polygons, values, there, crosses, points, new_labels),
        _side(polygons, -values, -there, crosses, points, new_labels),
    )


def _side(
    polygons: Polygons,
    here: Array,
    there: Array,
    crosses: Array,
    points: Array,
    new_labels: Array,
) -> Polygons:
    """The part with ``here >= 0``: vertices that stay, each followed by the cut of its edge."""
    stays = here >= 0
    item = np.flatnonzero(np.stack((stays, crosses), 1).reshape(-1))
    vertex = item >> 1
    is_new = (item & 1).astype(bool)
    # The edge after this vertex is the cut itself if the polygon's edge leaves the part here.
    leaves = np.where(is_new, here[vertex] > 0, (here[vertex] == 0) & (there[vertex] < 0))
    counts = np.add.reduceat(stays.astype(np.int64) + crosses, polygons.starts[:-1])
    return Polygons(
        np.where(is_new[:, None], points[vertex], polygons.vertices[vertex]),
        np.where(leaves, new_labels[vertex], polygons.labels[vertex]),
        np.concatenate(([0], np.cumsum(counts))),
    )
