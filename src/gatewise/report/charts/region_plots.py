"""A plane cut into regions, as a record and as geometry."""

from collections.abc import Sequence
from dataclasses import dataclass

from gatewise.report.charts.scales import Scale, Tick, grid
from gatewise.report.records import Point

FIELD = 1000
SHADES = 6  # of the regions: neighbours rarely have the same


@dataclass(frozen=True)
class Regions:
    """Polygons in a square window, lines across them, and named points."""

    title: str
    about: str
    polygons: Sequence[Sequence[Point]]
    lines: Sequence[tuple[Point, Point]]  # such as a decision boundary
    marks: Sequence[tuple[str, Point]]
    low: Point
    high: Point
    line_name: str = ""


@dataclass(frozen=True)
class RegionsLayout:
    """Regions ready to be drawn: one path for all regions of a shade."""

    regions: Regions
    x: Scale
    y: Scale
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    shades: tuple[str, ...]
    lines: str
    marks: tuple[tuple[str, float, float], ...]
    kind: str = "regions"


def lay_out_regions(regions: Regions) -> RegionsLayout:
    """Scales, ticks and paths."""
    x = Scale(regions.low[0], regions.high[0], FIELD)
    y = Scale(regions.low[1], regions.high[1], FIELD, down=True)
    paths: list[list[str]] = [[] for _ in range(SHADES)]
    for number, polygon in enumerate(regions.polygons):
        paths[number % SHADES].append(_closed(polygon, x, y))
    lines = "".join(
        f"M{x(a[0]):.1f} {y(a[1]):.1f}L{x(b[0]):.1f} {y(b[1]):.1f}" for a, b in regions.lines
    )
    inside = [
        (name, x(u) / 10, y(v) / 10)
        for name, (u, v) in regions.marks
        if _is_inside(regions, (u, v))
    ]
    return RegionsLayout(
        regions,
        x,
        y,
        grid(x, 4),
        grid(y, 4),
        tuple("".join(each) for each in paths),
        lines,
        tuple(inside),
    )


def _closed(polygon: Sequence[Point], x: Scale, y: Scale) -> str:
    return "M" + "L".join(f"{x(u):.1f} {y(v):.1f}" for u, v in polygon) + "Z"


def _is_inside(regions: Regions, point: Point) -> bool:
    return all(
        low <= each <= high
        for low, each, high in zip(regions.low, point, regions.high, strict=True)
    )
