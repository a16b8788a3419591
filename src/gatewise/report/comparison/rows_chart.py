"""The picture of a comparison: a row for each unit, with its curve and its difference."""

import math
from collections.abc import Sequence

from gatewise.errors import ArgumentError
from gatewise.report.charts import Point, RateRow, RateRows
from gatewise.report.picture_files import picture_file
from gatewise.studies import ComparisonResult, CurvePoint, ModelAnswer, UnitRow, verdict_line
from gatewise.words import MINUS, plural, rate

COLOURS = {"better": "up", "worse": "down"}
MOST_ROWS = 60
# How far below the lowest peak curves are shown: in distances between the peaks and in spreads.
BELOW_PEAKS = 1.2
BELOW_SPREADS = 6.0
ABOVE = 0.25


def rate_rows(result: ComparisonResult, answer: ModelAnswer) -> RateRows:
    """Return the rows of one model as a record of the chart model.

    Args:
        result: The comparison.
        answer: Of one model.
    """
    display = result.display
    has_curves = any(len(row.curve) > 1 for row in answer.rows)
    has_differences = any(math.isfinite(row.difference) for row in answer.units)
    baseline = answer.baseline
    unit = f"{display.difference_unit} " if display.difference_unit else ""
    at_peak = "at the peak: " if has_curves else ""
    more = "more than" if not display.unit else "above"
    return RateRows(
        title=answer.model if len(result.answers) > 1 else "",
        about="",
        rows=[_row(result, row) for row in answer.units[:MOST_ROWS]],
        baseline=_row(result, baseline),
        curve_label=f"{display.label} over the learning rate (grey: {baseline.unit})"
        if has_curves
        else "",
        difference_label=f"{at_peak}{unit}{more} {baseline.unit}" if has_differences else "",
        y_range=_height(result, answer) if has_curves else None,
    )


def comparison_picture(
    result: ComparisonResult,
    *,
    model: str | None = None,
) -> bytes:
    """Return the rows of one model as the bytes of an SVG file.

    Args:
        result: The comparison.
        model: Of the study; not needed if there is only one.
    """
    answer = result.answer(model)
    if len(answer.rows) < 2:
        raise ArgumentError("comparison_picture: there is no unit besides the baseline")
    return picture_file(rate_rows(result, answer))


def _row(result: ComparisonResult, row: UnitRow) -> RateRow:
    """Return one unit as a row of the picture."""
    display = result.display
    factor = display.factor
    points: list[Point] = []
    band = []
    notes = []
    best = None
    for point in row.curve:
        if point.rate is None:
            continue
        height = factor * point.mean
        spread = factor * point.spread if math.isfinite(point.spread) else 0.0
        points.append((point.rate, height))
        band.append((height - spread, height + spread))
        notes.append(_note(result, row, point))
        if point.rate == row.best_rate:
            best = (point.rate, height)
    figures = f"{display.difference(row.difference)} {display.interval(row.low, row.high)}"
    return RateRow(
        name=row.unit,
        verdict=verdict_line(result, row),
        colour=COLOURS.get(row.verdict, "flat"),
        curve=points,
        band=band,
        notes=notes,
        best=best,
        value=factor * row.difference,
        low=factor * row.low,
        high=factor * row.high,
        figures=figures.strip(),
    )


def _note(result: ComparisonResult, row: UnitRow, point: CurvePoint) -> str:
    """Return the tooltip of a point of a curve."""
    display = result.display
    shown = rate(point.rate) if point.rate is not None else ""
    words = f"{row.unit} at {shown.replace('-', MINUS)}: {display.value(point.mean)}"
    if math.isfinite(point.spread):
        words += f" ± {display.value(point.spread)}"
    words += f", {plural(point.runs, 'run')}"
    if point.diverged:
        words += f", {point.diverged} diverged or collapsed"
    return words if point.judged else f"{words}, dropped after the first seeds"


def _height(result: ComparisonResult, answer: ModelAnswer) -> tuple[float, float] | None:
    """Return the ends of the vertical axis: all peaks and what is near them.

    Curves that fall far below leave the picture.
    """
    display = result.display
    peaks = _finite([display.factor * row.best for row in answer.rows])
    if not peaks:
        return None
    points = [point for row in answer.rows for point in row.curve]
    heights = _finite([display.factor * point.mean for point in points])
    spreads = _finite([display.factor * row.spread for row in answer.rows])
    room = max(
        BELOW_PEAKS * (max(peaks) - min(peaks)),
        BELOW_SPREADS * (sorted(spreads)[len(spreads) // 2] if spreads else 0.0),
        0.02 * (max(heights) - min(heights)),
    )
    if room == 0:
        return None
    if display.higher_is_better:
        return max(min(peaks) - room, min(heights) - ABOVE * room), max(peaks) + ABOVE * room
    return min(peaks) - ABOVE * room, min(max(peaks) + room, max(heights) + ABOVE * room)


def _finite(values: Sequence[float]) -> list[float]:
    """Return the values that are finite."""
    return [value for value in values if math.isfinite(value)]
