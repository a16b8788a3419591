"""Curves to the geometry of an SVG plot: ticks, paths and dots in pixels.

The template writes the elements.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gatewise.report.charts import Scale, Tick, grid, path
from gatewise.report.records import Curve, Line, Plot, Point

WIDTH, HEIGHT = 340, 220
LEFT, RIGHT, TOP, BOTTOM = 40, 8, 8, 24
INNER_WIDTH, INNER_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
Lines = Sequence[Sequence[Point]]
LIGHT_STYLES = 4  # how many ways the light lines can be dashed


@dataclass(frozen=True)
class Stroke:
    """A line to draw: its SVG path and the style it is drawn in."""

    path: str
    style: str


@dataclass(frozen=True)
class Dot:
    """A marked point."""

    x: float
    y: float
    style: str


@dataclass(frozen=True)
class Panel:
    """One plot: what it shows, its grid, the lines in drawing order and the marked points."""

    what: str
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    strokes: tuple[Stroke, ...]
    dots: tuple[Dot, ...]


@dataclass(frozen=True)
class Legend:
    """One entry of the legend."""

    style: str
    label: str


def panels(plot: Plot) -> tuple[Panel, ...]:
    """The value of a unit and, beside it, its derivative."""
    if not plot.curves:
        return ()
    drawn = list(_in_drawing_order(plot.curves))
    values = [(k.x, y, _style(0, i)) for k in plot.kinks for i, y in enumerate(k.values)]
    slopes = [(k.x, k.slope, _style(0, 0)) for k in plot.kinks]
    return (
        _panel("value", [(style, line.value) for style, line in drawn], values),
        _panel("derivative", [(style, line.slope) for style, line in drawn], slopes),
    )


def legend(plot: Plot) -> tuple[Legend, ...]:
    """What each kind of line is; nothing where there is only one."""
    found = [
        Legend(_style(0, i), f"{curve.label}, {line.part}" if line.part else curve.label)
        for curve in plot.curves[:1]
        for i, line in enumerate(curve.lines)
    ]
    found += [Legend(_style(i, 0), curve.label) for i, curve in enumerate(plot.curves) if i]
    return tuple(found) if len(found) > 1 else ()


def thumbnail(plot: Plot, width: int = 64, height: int = 32) -> tuple[Stroke, ...]:
    """The default curve alone, small, over the two axes."""
    if not plot.curves:
        return ()
    lines = [line.value for line in plot.curves[0].lines]
    x, y = _scales(lines, [], width, height)
    axes = f"M0 {y(0):g}H{width}M{x(0):g} 0V{height}"
    return (
        Stroke(axes, "axes"),
        *(Stroke(path(line, x, y), _style(0, i)) for i, line in enumerate(lines)),
    )


def _style(curve: int, part: int) -> str:
    """Class of a line: ``line-1``, ``line-2`` for the parts under default options, ``light-1``... for other options."""
    return f"light-{(curve - 1) % LIGHT_STYLES + 1}" if curve else f"line-{min(part, 1) + 1}"


def _in_drawing_order(curves: Sequence[Curve]) -> Iterator[tuple[str, Line]]:
    """Light lines first, so that the default ones lie on top."""
    for i in reversed(range(len(curves))):
        for j, line in enumerate(curves[i].lines):
            yield _style(i, j), line


def _panel(
    what: str, lines: list[tuple[str, Sequence[Point]]], marks: list[tuple[float, float, str]]
) -> Panel:
    main = [line for style, line in lines if style.startswith("line")]
    light = [line for style, line in lines if style.startswith("light")]
    x, y = _scales(main, light, INNER_WIDTH, INNER_HEIGHT)
    return Panel(
        what=what,
        across=grid(x),
        up=grid(y),
        strokes=tuple(Stroke(path(line, x, y), style) for style, line in lines),
        dots=tuple(
            Dot(x(px), y(py), style)
            for px, py, style in marks
            if x.low <= px <= x.high and math.isfinite(py)
        ),
    )


def _scales(main: Lines, light: Lines, width: float, height: float) -> tuple[Scale, Scale]:
    """Room for every main line, and for light ones as far as they do not squeeze the main ones below half."""
    xs = [x for line in main for x, _ in line] or [0.0]
    low, high = _range(main)
    spread = (high - low) / 2
    light_low, light_high = _range(light) if light else (low, high)
    low, high = max(min(low, light_low), low - spread), min(max(high, light_high), high + spread)
    margin = 0.06 * (high - low)
    return _widen(min(xs), max(xs), width, False), _widen(low - margin, high + margin, height, True)


def _range(lines: Lines) -> tuple[float, float]:
    ys = [y for line in lines for _, y in line if math.isfinite(y)] or [0.0]
    low, high = min(ys), max(ys)
    return (low, high) if high - low > 0.5 else ((low + high) / 2 - 0.5, (low + high) / 2 + 0.5)


def _widen(low: float, high: float, pixels: float, down: bool) -> Scale:
    return Scale(low, high if high > low else low + 1, pixels, down)
