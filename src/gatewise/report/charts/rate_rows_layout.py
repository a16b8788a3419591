"""Rows of curves and differences to geometry. All rows share their scales."""

import math
from dataclasses import dataclass
from itertools import pairwise

from gatewise.report.charts.chart_layout import FIELD, Shape
from gatewise.report.charts.records import RateRow, RateRows
from gatewise.report.charts.scales import Scale, Tick, grid, path, scale
from gatewise.words import MINUS, rate

MIDDLE = 640  # of the lane of a difference: its figures stand above
ROOM = 0.06


@dataclass(frozen=True)
class LaidRow:
    """One row ready to be drawn.

    Args:
        row: The record.
        line: The path of its curve.
        band: The path of the area around it.
        points: Dots that can be pointed at.
        best: The dot at the best rate tried; empty if there is none.
        leaves: Where its curve leaves the picture: from the left, and whether at the top.
        bar: The path of the interval; empty if there is none.
        point: The dot of the difference; empty if there is none.
    """

    row: RateRow
    line: str
    band: str
    points: tuple[Shape, ...]
    best: str
    leaves: tuple[tuple[float, bool], ...]
    bar: str
    point: str


@dataclass(frozen=True)
class RateRowsLayout:
    """Rows ready to be drawn.

    Args:
        record: The rows.
        x: The scale of the learning rate; None without curves.
        y: The scale of the curves; None without curves.
        d: The scale of the differences; None without differences.
        across: Ticks of the learning rate.
        up: The highest and the lowest tick of the curves.
        along: Ticks of the differences.
        base: The baseline's curve.
        rows: The rows.
    """

    record: RateRows
    x: Scale | None
    y: Scale | None
    d: Scale | None
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    along: tuple[Tick, ...]
    base: LaidRow
    rows: tuple[LaidRow, ...]


def lay_out_rate_rows(record: RateRows) -> RateRowsLayout:
    """Return the scales and paths of rows."""
    everything = [record.baseline, *record.rows]
    x, y, d = None, None, None
    across: tuple[Tick, ...] = ()
    up: tuple[Tick, ...] = ()
    along: tuple[Tick, ...] = ()
    if record.curve_label:
        rates = [point[0] for row in everything for point in row.curve]
        heights = [point[1] for row in everything for point in row.curve]
        x = scale(rates, FIELD, log=True, margin=ROOM)
        y = scale(heights, FIELD, down=True, margin=ROOM)
        if record.y_range:
            y = Scale(*record.y_range, FIELD, down=True)
        kept = sorted({value for value in rates if x.has(value)})
        across = tuple(Tick(value, x(value), rate(value).replace("-", MINUS)) for value in kept)
        lowest, *_, highest = grid(y)
        up = (highest, lowest)
    if record.difference_label:
        ends = [0.0]
        for row in record.rows:
            ends += [row.value, row.low, row.high]
        d = scale(ends, FIELD, margin=ROOM)
        along = tuple(_signed(tick) for tick in grid(d))
    return RateRowsLayout(
        record=record,
        x=x,
        y=y,
        d=d,
        across=across,
        up=up,
        along=along,
        base=_lay_out(record.baseline, x, y, d),
        rows=tuple(_lay_out(row, x, y, d) for row in record.rows),
    )


def _signed(tick: Tick) -> Tick:
    """Return a tick of differences: positive numbers have a sign."""
    sign = "" if tick.zero or tick.label.startswith(MINUS) else "+"
    return Tick(tick.value, tick.at, f"{sign}{tick.label}")


def _lay_out(row: RateRow, x: Scale | None, y: Scale | None, d: Scale | None) -> LaidRow:
    """Return the paths of one row."""
    line, band, best, bar, point = "", "", "", "", ""
    points: list[Shape] = []
    leaves: tuple[tuple[float, bool], ...] = ()
    if x is not None and y is not None:
        line = path(row.curve, x, y)
        band = _band(row, x, y)
        leaves = _leaves(row, x, y)
        for place, (px, py) in enumerate(row.curve):
            if x.has(px) and y.has(py):
                note = row.notes[place] if row.notes else ""
                points.append(Shape(f"M{x(px):g} {y(py):g}h0", note))
        if row.best is not None and x.has(row.best[0]) and y.has(row.best[1]):
            best = f"M{x(row.best[0]):g} {y(row.best[1]):g}h0"
    if d is not None and d.has(row.value):
        point = f"M{d(row.value):g} {MIDDLE}h0"
        if math.isfinite(row.low) and math.isfinite(row.high):
            bar = f"M{d(row.low):g} {MIDDLE}H{d(row.high):g}"
    return LaidRow(row, line, band, tuple(points), best, leaves, bar, point)


def _leaves(row: RateRow, x: Scale, y: Scale) -> tuple[tuple[float, bool], ...]:
    """Return where a curve crosses the edge of the picture, or its points if all are outside."""
    places = [(x(px), y(py)) for px, py in row.curve if x.has(px) and y.has(py)]
    found = []
    for (left, here), (right, there) in pairwise(places):
        for edge in (0.0, float(FIELD)):
            if (here < edge) != (there < edge):
                part = (edge - here) / (there - here)
                found.append((round(left + part * (right - left), 2), edge == 0))
    if not found and all(not 0 <= height <= FIELD for _, height in places):
        found = [(across, height < 0) for across, height in places]
    return tuple(found)


def _band(row: RateRow, x: Scale, y: Scale) -> str:
    """Return the area around a curve, broken where it is not known."""
    parts = []
    run: list[tuple[float, float, float]] = []
    ends = [*zip(row.curve, row.band, strict=False), None]
    for entry in ends:
        if entry is not None and all(map(math.isfinite, (*entry[0], *entry[1]))):
            run.append((entry[0][0], *entry[1]))
            continue
        if len(run) > 1:
            there = [(px, high) for px, _, high in run]
            back = [(px, low) for px, low, _ in reversed(run)]
            parts.append(path([*there, *back], x, y) + "Z")
        run = []
    return "".join(parts)
