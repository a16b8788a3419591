"""Charts to geometry. Coordinates are in a field of 1000 by 1000 that the page stretches."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gatewise.report.charts.palette import first_dash
from gatewise.report.charts.records import DASHES, Chart, Point, Series
from gatewise.report.charts.scales import Scale, Tick, grid, path, scale, tick_label
from gatewise.words import number

FIELD = 1000
FILLED = 0.84  # of the distance between neighbouring bars


@dataclass(frozen=True)
class Shape:
    """A path with its tooltip."""

    path: str
    note: str


@dataclass(frozen=True)
class Drawn:
    """One series ready to be drawn.

    Args:
        series: The record.
        index: The number of the series in its chart, from 1.
        dash: The line style, from 0 to 3.
        band: The path of the area or of the vertical bars; empty if there is none.
        line: The path of the line; empty for dots, rings and bars.
        shapes: What can be pointed at: dots, rings or bars with their tooltips.
        bar_start: How far left of its x a bar begins, in data units.
        bar_width: The width of a bar in data units.
    """

    series: Series
    index: int
    dash: int
    band: str
    line: str
    shapes: tuple[Shape, ...]
    bar_start: float
    bar_width: float


@dataclass(frozen=True)
class ChartLayout:
    """A chart ready to be drawn.

    Args:
        chart: The record.
        x: The horizontal scale.
        y: The vertical scale.
        across: The ticks of the horizontal axis.
        up: The ticks of the vertical axis.
        drawn: The series, in the order of the legend.
        rules: Lines across the chart.
        missing: The number of points that cannot be drawn: not finite, or not positive on a
            logarithmic axis.
        described: What a screen reader says.
    """

    chart: Chart
    x: Scale
    y: Scale
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    drawn: tuple[Drawn, ...]
    rules: tuple[Shape, ...]
    missing: int
    described: str

    @property
    def painted(self) -> list[Drawn]:
        """The series from back to front: those in the colour of the background first."""
        return sorted(self.drawn, key=lambda drawn: drawn.series.colour != "light")

    @property
    def named(self) -> list[Drawn]:
        """The series that have an entry in a legend."""
        return [drawn for drawn in self.drawn if drawn.series.name]

    @property
    def has_legend(self) -> bool:
        """Whether the chart shows a legend: one series needs none below a title."""
        return self.chart.legend and (len(self.named) > 1 or not self.chart.title)


def lay_out_chart(chart: Chart) -> ChartLayout:
    """Return scales, ticks, paths and labels of a chart."""
    x = _x_scale(chart)
    y = _y_scale(chart)
    return ChartLayout(
        chart=chart,
        x=x,
        y=y,
        across=_across(chart, x),
        up=grid(y, 3 if chart.small else 5),
        drawn=tuple(_draw_all(chart, x, y)),
        rules=tuple(_rules(chart, x, y)),
        missing=_count_missing(chart, x, y),
        described=chart.description or _describe(chart),
    )


def _count_missing(chart: Chart, x: Scale, y: Scale) -> int:
    """The number of points that cannot be drawn, of series whose points matter singly."""
    missing = 0
    for series in chart.series:
        if series.tooltips:
            missing += sum(not (x.has(px) and y.has(py)) for px, py in series.points)
    return missing


def _has(chart: Chart, *kinds: str) -> bool:
    """Whether a series of one of these kinds is in the chart."""
    return any(series.kind in kinds for series in chart.series)


def _x_scale(chart: Chart) -> Scale:
    """The horizontal scale: as given, one place per name, or with room for all points.

    Bars need room for half a bar at both ends, and dots for their radius.
    """
    if chart.x_range:
        return Scale(*chart.x_range, FIELD, log=chart.x_log)
    if chart.x_names:
        return Scale(-0.6, len(chart.x_names) - 0.4, FIELD)
    values = [mark.x for mark in chart.marks if mark.x is not None]
    for series in chart.series:
        values += series.xs
    margin = 0.06 if _has(chart, "dots", "rings") else 0.015
    if _has(chart, "bars") and len(set(values)) > 1:
        margin = max(margin, 0.6 * _spacing(values) / (max(values) - min(values)))
    return scale(values, FIELD, log=chart.x_log, margin=margin)


def _y_scale(chart: Chart) -> Scale:
    """The vertical scale: as given, or with room for all points, bands and marks.

    Bars without a negative value stand on the axis, so that lengths can be compared.
    """
    if chart.y_range:
        return Scale(*chart.y_range, FIELD, down=True, log=chart.y_log)
    values = [mark.y for mark in chart.marks if mark.y is not None]
    for series in chart.series:
        values += series.ys
        for low, high in series.band:
            values += [low, high]
    if not _has(chart, "bars"):
        return scale(values, FIELD, down=True, log=chart.y_log, margin=0.07)
    with_room = scale([*values, 0.0], FIELD, down=True, log=chart.y_log, margin=0.07)
    negative = any(value < 0 for value in values)
    if chart.y_log or negative:
        return with_room
    return Scale(0.0, with_room.high, FIELD, down=True)  # bars stand on the axis


def _across(chart: Chart, x: Scale) -> tuple[Tick, ...]:
    """The ticks of the horizontal axis: names, or round numbers."""
    if chart.x_names:
        return tuple(Tick(i, x(i), name) for i, name in enumerate(chart.x_names))
    return grid(x, 3 if chart.small else 5)


def _draw_all(chart: Chart, x: Scale, y: Scale) -> Iterator[Drawn]:
    """Yield every series, with its line style and its place among the bars."""
    bars = sum(series.kind == "bars" for series in chart.series)
    bars_before = 0
    of_colour: Counter[str] = Counter()
    for index, series in enumerate(chart.series, 1):
        dash = series.dash
        if dash is None:
            dash = (first_dash(series.colour) + of_colour[series.colour]) % DASHES
        of_colour[series.colour] += 1
        whole = FILLED * _spacing(series.xs)
        width = whole / max(bars, 1)
        start = whole / 2 - bars_before * width
        bars_before += series.kind == "bars"
        yield Drawn(
            series=series,
            index=index,
            dash=dash,
            band=_band(series, x, y),
            line=_line(series, x, y),
            shapes=tuple(_shapes(series, chart, x, y, start, width)),
            bar_start=start,
            bar_width=width,
        )


def _line(series: Series, x: Scale, y: Scale) -> str:
    """The path of a line or of steps; empty for other kinds."""
    if series.kind == "line":
        return path(series.points, x, y)
    if series.kind == "steps":
        return path(_stairs(series.points), x, y)
    return ""


def _shapes(
    series: Series,
    chart: Chart,
    x: Scale,
    y: Scale,
    start: float,
    width: float,
) -> Iterator[Shape]:
    """Yield the dots or bars of a series that can be drawn, with their tooltips."""
    if not series.tooltips:
        return
    foot = y(y.low if y.log else max(y.low, min(y.high, 0.0)))
    per_unit = FIELD / (x.high - x.low)
    for place, (px, py) in enumerate(series.points):
        if not (x.has(px) and y.has(py)):
            continue
        note = series.notes[place] if series.notes else _note(series, chart, (px, py))
        if series.kind == "bars":
            left = x(px) - start * per_unit
            yield Shape(
                f"M{left:g} {foot:g}V{y(py):g}h{width * per_unit:g}V{foot:g}z",
                note,
            )
        else:
            # A line of no length with round ends is a dot that the page cannot stretch.
            yield Shape(f"M{x(px):g} {y(py):g}h0", note)


def _spacing(values: Sequence[float]) -> float:
    """The smallest distance between two different values; 1 if there is only one."""
    distinct = sorted(set(values))
    return min((b - a for a, b in pairwise(distinct)), default=1.0)


def _stairs(points: Sequence[Point]) -> list[Point]:
    """Each value held until the next x."""
    corners = list(points[:1])
    for (_, held), (x, y) in pairwise(points):
        corners += [(x, held), (x, y)]
    return corners


def _band(series: Series, x: Scale, y: Scale) -> str:
    """The path of the area behind a line, or of vertical bars through dots and bars."""
    kept = []
    for (px, _), (low, high) in zip(series.points, series.band, strict=False):
        if x.has(px) and y.has(low) and y.has(high):
            kept.append((px, low, high))
    if series.kind not in ("line", "steps"):
        return "".join(f"M{x(px):g} {y(low):g}V{y(high):g}" for px, low, high in kept)
    if len(kept) < 2:
        return ""
    there = path([(px, high) for px, _, high in kept], x, y)
    back = path([(px, low) for px, low, _ in reversed(kept)], x, y)
    return f"{there}L{back[1:]}z"


def _rules(chart: Chart, x: Scale, y: Scale) -> Iterator[Shape]:
    """Yield the marks: lines across the whole chart."""
    for mark in chart.marks:
        if mark.x is not None and x.has(mark.x):
            yield Shape(f"M{x(mark.x):g} 0V{FIELD}", mark.text)
        elif mark.y is not None and y.has(mark.y):
            yield Shape(f"M0 {y(mark.y):g}H{FIELD}", mark.text)


def _note(series: Series, chart: Chart, point: Point) -> str:
    """The tooltip of a point: its two numbers, or the name at its x and one number."""
    x, y = point
    where = f"{chart.x_label} {_in_full(x)}"
    if chart.x_names and 0 <= x < len(chart.x_names):
        where = chart.x_names[int(x)]
    return f"{series.name}: {where}, {chart.y_label} {_in_full(y)}"


def _in_full(value: float) -> str:
    """A number for a tooltip: whole numbers in full, others with four digits."""
    whole = abs(value) < 1e6 and value == int(value)
    return tick_label(value) if whole else number(value, 4)


def _describe(chart: Chart) -> str:
    """What the chart shows, for a screen reader."""
    names = ", ".join(series.name for series in chart.series if series.name)
    ending = f" for {names}" if names else ""
    return f"{chart.title}: {chart.y_label} against {chart.x_label}{ending}"
