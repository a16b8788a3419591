"""Forest plots to geometry: each row is a field of its own, all rows on one scale."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from gatewise.report.charts.chart_layout import FIELD, Shape
from gatewise.report.charts.records import Forest, Interval
from gatewise.report.charts.scales import Scale, Tick, grid, scale
from gatewise.words import MINUS, p_value, signed

LANES = (0, -150, 150)  # neighbouring dots are moved up and down, so that equal ones do not hide
MIDDLE = FIELD // 2


def colour_of(interval: tuple[float, float], *, higher_is_better: bool = True) -> str:
    """Return the colour of a difference: the one place where it is decided.

    Args:
        interval: Its two ends; NaN if there is no interval.
        higher_is_better: Whether a positive difference is the better one.

    Returns:
        ``up`` or ``down`` if zero is outside the interval, else ``flat``.
    """
    low, high = interval
    if low > 0 and high > 0:
        return "up" if higher_is_better else "down"
    if low < 0 and high < 0:
        return "down" if higher_is_better else "up"
    return "flat"


@dataclass(frozen=True)
class Row:
    """One interval ready to be drawn."""

    interval: Interval
    colour: str
    dots: tuple[Shape, ...]
    bar: str
    point: Shape
    figures: str
    p: str


@dataclass(frozen=True)
class ForestLayout:
    """A forest plot ready to be drawn."""

    forest: Forest
    x: Scale
    across: tuple[Tick, ...]
    rows: tuple[Row, ...]


def lay_out_forest(forest: Forest) -> ForestLayout:
    """Return one scale for all rows, with zero on it, and the rows."""
    values = [0.0]
    for row in forest.rows:
        values += [row.value, row.low, row.high, *row.dots]
    x = Scale(*forest.range, FIELD) if forest.range else scale(values, FIELD, margin=0.05)
    rows = tuple(_row(row, x, forest) for row in forest.rows)
    return ForestLayout(forest, x, tuple(_signed_ticks(x)), rows)


def _signed_ticks(x: Scale) -> Iterator[Tick]:
    """Yield the ticks of the axis with a plus sign at positive numbers."""
    for tick in grid(x):
        sign = "" if tick.zero or tick.label.startswith(MINUS) else "+"
        yield Tick(tick.value, tick.at, f"{sign}{tick.label}")


def _row(row: Interval, x: Scale, forest: Forest) -> Row:
    """One interval: the bar, the dots of single seeds, and the numbers in text."""
    decimals = forest.decimals
    figures = signed(row.value, decimals)
    bar = ""
    if math.isfinite(row.low) and math.isfinite(row.high):
        low, high = (signed(end, decimals, exact_zero=True) for end in (row.low, row.high))
        figures += f" [{low}, {high}]"
        bar = f"M{x(row.low):g} {MIDDLE}H{x(row.high):g}"
    dots = []
    for place, value in enumerate(row.dots):
        if x.has(value):
            note = row.dot_notes[place] if row.dot_notes else signed(value, decimals)
            height = MIDDLE + LANES[place % len(LANES)]
            dots.append(Shape(f"M{x(value):g} {height}h0", note))
    point = f"M{x(row.value):g} {MIDDLE}h0" if x.has(row.value) else ""
    return Row(
        interval=row,
        colour=colour_of((row.low, row.high), higher_is_better=forest.higher_is_better),
        dots=tuple(dots),
        bar=bar,
        point=Shape(point, f"{row.name}: {figures}"),
        figures=figures,
        p=p_value(row.p),
    )
