"""A plane of regions to geometry."""

from collections.abc import Sequence
from dataclasses import dataclass

from gatewise.report.charts.chart_layout import FIELD
from gatewise.report.charts.records import Point, Regions
from gatewise.report.charts.scales import Scale, Tick, grid

SHADES = 6  # with so many shades, neighbouring regions rarely have the same one


@dataclass(frozen=True)
class RegionsLayout:
    """Regions ready to be drawn.

    Args:
        regions: The record.
        x: The horizontal scale.
        y: The vertical scale.
        across: The ticks of the horizontal axis.
        up: The ticks of the vertical axis.
        shades: One path for all regions of a shade.
        lines: One path for all lines.
        marks: Each name with its place, in percent from the left and from the top.
    """

    regions: Regions
    x: Scale
    y: Scale
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    shades: tuple[str, ...]
    lines: str
    marks: tuple[tuple[str, float, float], ...]


def lay_out_regions(regions: Regions) -> RegionsLayout:
    """Return scales, ticks and paths of a plane of regions."""
    x = Scale(regions.low[0], regions.high[0], FIELD)
    y = Scale(regions.low[1], regions.high[1], FIELD, down=True)
    shades = [""] * SHADES
    for place, polygon in enumerate(regions.polygons):
        shades[place % SHADES] += f"M{_corners(polygon, x, y)}Z"
    lines = "".join(f"M{_corners(ends, x, y)}" for ends in regions.lines)
    marks = []
    for name, (u, v) in regions.marks:
        if x.low <= u <= x.high and y.low <= v <= y.high:
            marks.append((name, x(u) / 10, y(v) / 10))
    return RegionsLayout(regions, x, y, grid(x, 4), grid(y, 4), tuple(shades), lines, tuple(marks))


def _corners(points: Sequence[Point], x: Scale, y: Scale) -> str:
    """The middle of an SVG path through ``points``."""
    return "L".join(f"{x(u):.1f} {y(v):.1f}" for u, v in points)
