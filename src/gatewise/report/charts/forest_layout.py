"""Forest plots to geometry: each row is a field of its own, all on one scale."""

import math
from dataclasses import dataclass

from gatewise.report.charts.chart_layout import FIELD, Shape
from gatewise.report.charts.records import Forest, Interval
from gatewise.report.charts.scales import Scale, Tick, grid, scale
from gatewise.report.words import MINUS, p_value, signed

COLOUR_OF = {"better": "up", "worse": "down"}
LANES = (0, -1, 1)  # neighbouring seeds lie in different lanes, so that equal ones are seen apart
LANE = 150
MIDDLE = FIELD // 2


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
    described: str
    kind: str = "forest"


def lay_out_forest(forest: Forest) -> ForestLayout:
    """One scale for all rows, with zero on it; then the rows."""
    values = [v for row in forest.rows for v in (row.value, row.low, row.high, *row.dots)]
    x = Scale(*forest.range, FIELD) if forest.range else scale([0.0, *values], FIELD, margin=0.05)
    ticks = tuple(
        Tick(t.at, t.label if t.zero or t.label.startswith(MINUS) else f"+{t.label}", t.zero)
        for t in grid(x)
    )
    rows = tuple(_row(row, x, forest.decimals) for row in forest.rows)
    return ForestLayout(forest, x, ticks, rows, f"{forest.title}: {forest.label}")


def _row(row: Interval, x: Scale, decimals: int) -> Row:
    drawable = math.isfinite(row.low) and math.isfinite(row.high)
    value, low, high = (signed(v, decimals) for v in (row.value, row.low, row.high))
    figures = f"{value} [{low}, {high}]" if drawable else value
    notes = row.dot_notes or [signed(v, decimals) for v in row.dots]
    dots = [
        Shape(f"M{x(v):g} {MIDDLE + LANE * LANES[i % len(LANES)]}h0", note)
        for i, (v, note) in enumerate(zip(row.dots, notes, strict=True))
        if x.has(v)
    ]
    return Row(
        interval=row,
        colour=COLOUR_OF.get(row.verdict, "flat"),
        dots=tuple(dots),
        bar=f"M{x(row.low):g} {MIDDLE}H{x(row.high):g}" if drawable else "",
        point=Shape(
            f"M{x(row.value):g} {MIDDLE}h0" if x.has(row.value) else "", f"{row.name}: {figures}"
        ),
        figures=figures,
        p=p_value(row.p),
    )
