"""Many convex polygons in flat arrays, and cutting them all at once."""

from dataclasses import dataclass

import numpy as np

from gatewise.errors import Limitation, NotApplicableError

Array = np.ndarray
NO_LABEL = -1  # of an edge on the border of the window
ROUNDINGS = 64  # a value of fewer than so many roundings of its terms is zero


@dataclass(frozen=True)
class Polygons:
    """``N`` polygons, each counter-clockwise.

    Polygon ``i`` has the vertices ``starts[i]`` to ``starts[i + 1]``.

    ``labels[v]`` names the cut that the edge from vertex ``v`` to the next one of its polygon lies
    on. Two polygons are neighbours only along edges of the same label.
    """

    vertices: Array  # (V, 2) float64
    labels: Array  # (V,) int64
    starts: Array  # (N + 1,) int64

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def counts(self) -> Array:
        """How many vertices each has (N,)."""
        return np.diff(self.starts)

    @property
    def owner(self) -> Array:
        """Which polygon each vertex is of (V,)."""
        return np.repeat(np.arange(len(self)), self.counts)

    @property
    def following(self) -> Array:
        """The vertex after each (V,)."""
        after = np.arange(1, len(self.vertices) + 1)
        after[self.starts[1:] - 1] = self.starts[:-1]
        return after

    @property
    def middles(self) -> Array:
        """The mean of each one's vertices (N, 2): inside, as they are convex."""
        return np.add.reduceat(self.vertices, self.starts[:-1]) / self.counts[:, None]

    @property
    def areas(self) -> Array:
        """By the cross products of edges, from the first vertex on, so that a far polygon keeps its digits (N,)."""
        first = self.vertices[self.starts[:-1]][self.owner]
        a, b = self.vertices - first, self.vertices[self.following] - first
        return 0.5 * np.add.reduceat(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0], self.starts[:-1])

    @property
    def centroids(self) -> Array:
        """Centres of gravity (N, 2).

        The mean of the vertices where the area is lost in rounding.
        """
        first = self.vertices[self.starts[:-1]]
        a, b = self.vertices - first[self.owner], self.vertices[self.following] - first[self.owner]
        cross = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
        moments = np.add.reduceat((a + b) * cross[:, None], self.starts[:-1])
        whole = 3 * np.add.reduceat(cross, self.starts[:-1])
        thin = whole <= 0
        return np.where(
            thin[:, None], self.middles, first + moments / np.where(thin, 1, whole)[:, None]
        )

    def take(self, which: Array) -> "Polygons":
        """Those polygons, in that order, as often as they are named."""
        counts = self.counts[which]
        starts = np.concatenate(([0], np.cumsum(counts)))
        index = np.arange(starts[-1]) + np.repeat(self.starts[:-1][which] - starts[:-1], counts)
        return Polygons(self.vertices[index], self.labels[index], starts)

    def slice(self, first: int, last: int) -> "Polygons":
        """The polygons from ``first`` up to ``last``, which is left out."""
        low, high = self.starts[first], self.starts[last]
        return Polygons(
            self.vertices[low:high], self.labels[low:high], self.starts[first : last + 1] - low
        )


def rectangle(low: tuple[float, float], high: tuple[float, float]) -> Polygons:
    """One polygon: the window that everything is seen through."""
    corners = np.array(
        [[low[0], low[1]], [high[0], low[1]], [high[0], high[1]], [low[0], high[1]]],
        dtype=np.float64,
    )
    return Polygons(corners, np.full(4, NO_LABEL), np.array([0, 4]))


def join(parts: list[Polygons]) -> Polygons:
    """All polygons of all parts."""
    counts = np.concatenate([part.counts for part in parts])
    starts = np.concatenate(([0], np.cumsum(counts)))
    return Polygons(
        np.concatenate([part.vertices for part in parts]),
        np.concatenate([part.labels for part in parts]),
        starts,
    )


def names_of_units(layer: int, count: int) -> Array:
    """Random numbers (count,) uint64: their sum over the units of one piece names a pattern.

    ``layer`` counts units.
    """
    return np.random.default_rng(layer).integers(2**63, size=count, dtype=np.uint64)


def too_many_regions(got: int, limit: int) -> NotApplicableError:
    """The error for a window that has more regions than was allowed."""
    return NotApplicableError(
        Limitation.TOO_MANY_REGIONS,
        "partition: the window has more regions than limit",
        got=f"{got} so far",
        allowed=f"limit={limit}",
        fix="a smaller extent, or a larger limit: a region takes a few hundred bytes",
    )


def no_memory() -> NotApplicableError:
    """The error of the compiled form."""
    return NotApplicableError(
        Limitation.TOO_LARGE,
        "partition: there is no memory for the regions",
        fix="a smaller extent",
    )


def tolerance(lines: Array, reach: Array) -> Array:
    """Below which a value of ``lines`` (N, 3, ...) in the window is zero by rounding.

    ``reach`` bounds coordinates.
    """
    sizes = np.abs(lines)
    bound = ROUNDINGS * np.finfo(np.float64).eps
    return bound * (sizes[:, 0] + reach[0] * sizes[:, 1] + reach[1] * sizes[:, 2])


def values_at_vertices(polygons: Polygons, lines: Array, zero: Array) -> Array:
    """Of one line a polygon (N, 3), at its vertices (V,).

    Exactly 0 where it is at most its polygon's of ``zero``.
    """
    own = lines[polygons.owner]
    values = own[:, 0] + own[:, 1] * polygons.vertices[:, 0] + own[:, 2] * polygons.vertices[:, 1]
    values[np.abs(values) <= zero[polygons.owner]] = 0.0
    return values


def signs(polygons: Polygons, values: Array) -> tuple[Array, Array]:
    """Of each polygon: whether a vertex is on the positive side of its line, and whether one is on the negative."""
    first = polygons.starts[:-1]
    return np.maximum.reduceat(values, first) > 0, np.minimum.reduceat(values, first) < 0


def cut(polygons: Polygons, values: Array, labels: Array) -> tuple[Polygons, Polygons]:
    """The parts where ``values`` (V,) are positive and where they are negative, of polygons that have both.

    The new edge of each is labelled by its polygon's of ``labels`` (N,).
    """
    after = polygons.following
    there = values[after]
    crosses = (
        np.sign(values) * np.sign(there) < 0
    )  # the product itself could be too small to be told from 0
    share = np.divide(values, values - there, out=np.zeros_like(values), where=crosses)
    points = polygons.vertices + share[:, None] * (polygons.vertices[after] - polygons.vertices)
    fresh = labels[polygons.owner]
    return (
        _side(polygons, values, there, crosses, points, fresh),
        _side(polygons, -values, -there, crosses, points, fresh),
    )


def _side(
    polygons: Polygons, here: Array, there: Array, crosses: Array, points: Array, fresh: Array
) -> Polygons:
    """The part with ``here >= 0``.

    Each vertex that stays, and after it the point where its edge is cut.
    """
    stays = here >= 0
    item = np.flatnonzero(np.stack((stays, crosses), 1).reshape(-1))
    vertex, new = item >> 1, (item & 1).astype(bool)
    leaves = np.where(new, here[vertex] > 0, (here[vertex] == 0) & (there[vertex] < 0))
    counts = np.add.reduceat(stays.astype(np.int64) + crosses, polygons.starts[:-1])
    return Polygons(
        np.where(new[:, None], points[vertex], polygons.vertices[vertex]),
        np.where(leaves, fresh[vertex], polygons.labels[vertex]),
        np.concatenate(([0], np.cumsum(counts))),
    )
