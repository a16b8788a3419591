"""Charts to geometry: every coordinate in a field of 1000 by 1000 that the page stretches to the width it has."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gatewise.report.charts.label_places import Label, place_labels
from gatewise.report.charts.records import Chart, Series
from gatewise.report.charts.scales import Scale, Tick, grid, path, scale, tick_label
from gatewise.report.records import Point
from gatewise.report.words import number

FIELD = 1000
DASHES = 4  # how many series of one colour can be told apart


@dataclass(frozen=True)
class Shape:
    """A path with its tooltip."""

    path: str
    note: str


@dataclass(frozen=True)
class Drawn:
    """One series: an area or whiskers behind, a line, and the shapes that can be pointed at."""

    series: Series
    dash: int
    band: str
    line: str
    shapes: tuple[Shape, ...]


@dataclass(frozen=True)
class ChartLayout:
    """A chart ready to be drawn."""

    chart: Chart
    x: Scale
    y: Scale
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    drawn: tuple[Drawn, ...]
    rules: tuple[Shape, ...]
    labels: tuple[Label, ...]
    missing: int  # points that have no place: not finite, or not positive on a logarithmic axis
    described: str
    kind: str = "chart"


def lay_out_chart(chart: Chart) -> ChartLayout:
    """Scales, ticks, paths and labels of a chart."""
    x, y = _x_scale(chart), _y_scale(chart)
    bars = [each for each in chart.series if each.kind == "bars"]
    repeats: Counter[str] = Counter()
    drawn = []
    for each in chart.series:
        place = bars.index(each) if each in bars else 0
        drawn.append(_draw(each, chart, x, y, repeats[each.colour] % DASHES, place, len(bars)))
        repeats[each.colour] += 1
    points = [point for each in chart.series for point in each.points]
    placed = [(x.part(px), 1 - y.part(py)) for px, py in points if x.has(px) and y.has(py)]
    named = [
        (m.text, x.part(m.x), 1 - y.part(m.y))
        for m in chart.marks
        if m.x is not None and m.y is not None
    ]
    return ChartLayout(
        chart=chart,
        x=x,
        y=y,
        across=_across(chart, x),
        up=grid(y, 3 if chart.small else 5),
        drawn=tuple(drawn),
        rules=tuple(_rules(chart, x, y)),
        labels=place_labels(named, placed),
        missing=len(points) - len(placed),
        described=_described(chart),
    )


def _x_scale(chart: Chart) -> Scale:
    if chart.x_range:
        return Scale(*chart.x_range, FIELD, log=chart.x_log)
    if chart.x_names:
        return Scale(-0.6, len(chart.x_names) - 0.4, FIELD)
    values = [x for each in chart.series for x, _ in each.points] + [
        m.x for m in chart.marks if m.x is not None
    ]
    bars = any(each.kind == "bars" for each in chart.series)
    dots = any(each.kind == "dots" for each in chart.series)
    room = (
        0.6 * _spacing(values) / (max(values) - min(values))
        if bars and len(set(values)) > 1
        else 0.0
    )
    return scale(values, FIELD, log=chart.x_log, margin=max(room, 0.06 if dots else 0.015))


def _y_scale(chart: Chart) -> Scale:
    if chart.y_range:
        return Scale(*chart.y_range, FIELD, down=True, log=chart.y_log)
    values = [y for each in chart.series for _, y in each.points] + [
        m.y for m in chart.marks if m.y is not None
    ]
    values += [edge for each in chart.series for pair in each.band for edge in pair]
    bars = any(each.kind == "bars" for each in chart.series)
    made = scale(values + [0.0] * bars, FIELD, down=True, log=chart.y_log, margin=0.07)
    grounded = (
        bars
        and not chart.y_log
        and made.low < 0
        and min([v for v in values if v == v], default=0) >= 0
    )
    return Scale(0.0, made.high, FIELD, down=True) if grounded else made  # bars stand on the axis


def _across(chart: Chart, x: Scale) -> tuple[Tick, ...]:
    if chart.x_names:
        return tuple(Tick(x(i), name, False) for i, name in enumerate(chart.x_names))
    return grid(x, 3 if chart.small else 5)


def _draw(
    series: Series, chart: Chart, x: Scale, y: Scale, dash: int, place: int, bars: int
) -> Drawn:
    shape = _bar_maker(series, x, y, place, bars) if series.kind == "bars" else _dot_maker(x, y)
    notes = series.notes or [_note(series, chart, point) for point in series.points]
    shapes = [
        Shape(shape(point), note)
        for point, note in zip(series.points, notes, strict=True)
        if x.has(point[0]) and y.has(point[1])
    ]
    line = {"line": path(series.points, x, y), "steps": path(_stairs(series.points), x, y)}.get(
        series.kind, ""
    )
    return Drawn(series, dash, _band(series, x, y), line, tuple(shapes))


def _dot_maker(x: Scale, y: Scale) -> Callable[[Point], str]:
    """A line of no length: with round ends and a width that does not stretch it is a round dot."""
    return lambda point: f"M{x(point[0]):g} {y(point[1]):g}h0"


def _bar_maker(series: Series, x: Scale, y: Scale, place: int, bars: int) -> Callable[[Point], str]:
    """Bars of several series stand side by side."""
    whole = 0.84 * _spacing([px for px, _ in series.points]) / (x.high - x.low) * FIELD
    width = whole / bars
    foot = y(max(y.low, min(y.high, 0.0)) if not y.log else y.low)
    return lambda point: (
        f"M{x(point[0]) - whole / 2 + place * width:g} {foot:g}V{y(point[1]):g}h{width:g}V{foot:g}z"
    )


def _spacing(values: Sequence[float]) -> float:
    found = sorted(set(values))
    return min((b - a for a, b in pairwise(found)), default=1.0)


def _stairs(points: Sequence[Point]) -> list[Point]:
    """Each value held until the next x."""
    held = [(x, y) for (x, _), (_, y) in zip(points[1:], points, strict=False)]
    corners = [
        pair for point, corner in zip(points, held, strict=False) for pair in (point, corner)
    ]
    return corners + list(points[-1:])


def _band(series: Series, x: Scale, y: Scale) -> str:
    if series.kind in ("dots", "bars"):
        return "".join(
            _whisker(point[0], *pair, x, y)
            for point, pair in zip(series.points, series.band, strict=False)
        )
    kept = [(point[0], pair) for point, pair in zip(series.points, series.band, strict=False)]
    kept = [(px, pair) for px, pair in kept if x.has(px) and all(map(y.has, pair))]
    if len(kept) < 2:
        return ""
    there = path([(px, high) for px, (_, high) in kept], x, y)
    back = path([(px, low) for px, (low, _) in reversed(kept)], x, y)
    return f"{there}L{back[1:]}z"


def _whisker(at: float, low: float, high: float, x: Scale, y: Scale) -> str:
    return f"M{x(at):g} {y(low):g}V{y(high):g}" if x.has(at) and y.has(low) and y.has(high) else ""


def _rules(chart: Chart, x: Scale, y: Scale) -> Iterator[Shape]:
    for mark in chart.marks:
        if mark.y is None and mark.x is not None and x.has(mark.x):
            yield Shape(f"M{x(mark.x):g} 0V{FIELD}", mark.text)
        elif mark.x is None and mark.y is not None and y.has(mark.y):
            yield Shape(f"M0 {y(mark.y):g}H{FIELD}", mark.text)


def _note(series: Series, chart: Chart, point: Point) -> str:
    at = int(point[0]) if chart.x_names and 0 <= point[0] < len(chart.x_names) else None
    where = chart.x_names[at] if at is not None else f"{chart.x_label} {_in_full(point[0])}"
    return f"{series.name}: {where}, {chart.y_label} {_in_full(point[1])}"


def _in_full(value: float) -> str:
    return (
        tick_label(value)
        if value == value and abs(value) < 1e6 and value == int(value)
        else number(value, 4)
    )


def _described(chart: Chart) -> str:
    """What the chart shows, for those who cannot see it."""
    names = ", ".join(each.name for each in chart.series if each.name)
    return f"{chart.title}: {chart.y_label} against {chart.x_label}" + (
        f" for {names}" if names else ""
    )
