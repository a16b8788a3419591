"""Every unit's metric over the learning rate, and the verdict against the baseline at each rate."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from gatewise.report.charts import Cell, Chart, Mark, Panels, Series, Table, colour_of
from gatewise.report.comparison.answer import look_of
from gatewise.report.comparison.findings import Block, Findings
from gatewise.report.comparison.limits import MOST_BLOCKS, MOST_PANELS, shown_words, spread_out
from gatewise.report.comparison.tables import number_cell, rate_cell
from gatewise.studies import Display, RateCurve, rate_blocks, rate_curves
from gatewise.words import MINUS, rate

READ = (
    "Dots are the test runs of the comparison (final runs and runs at neighbouring rates), with "
    "one standard deviation; the colour of a dot is the verdict against {baseline} at the same "
    "rate. {tuning}{chosen}"
)
TUNING = (
    "The line is the mean of the tuning runs on held-out training examples, which are not the test "
    "set; grey is {baseline}. "
)
CHOSEN = "The vertical line is the chosen rate."
POINT_COLOURS = {"up": "better", "down": "worse", "flat": "undecided"}


def rate_items(findings: Findings) -> Iterator[Panels | Table]:
    """Yield a chart per unit and a table of verdicts for each block with more than one rate.

    Args:
        findings: The comparison.
    """
    names = {block.place: block for block in findings.blocks}
    drawn = 0
    for place, more in rate_blocks(findings.result).items():
        block = names[place]
        curves = rate_curves(findings.result, place, more) if drawn < MOST_BLOCKS else []
        if curves:
            drawn += 1
            yield _panels(findings, block, curves)
            yield _table(findings, block, curves)


def _panels(findings: Findings, block: Block, curves: Sequence[RateCurve]) -> Panels:
    """One small chart per unit, with the baseline in grey."""
    base = curves[0]
    others = spread_out(curves[1:], MOST_PANELS)
    edges = []
    for curve in (base, *others):
        for points in (_held_out(curve, findings.display), _tested(curve, findings.display)):
            edges += [value for _, value, _ in points]
    charts = []
    if edges:
        room = 0.05 * (max(edges) - min(edges)) or 1.0
        ranges = _x_range(curves), (min(edges) - room, max(edges) + room)
        charts = [_chart(findings, base, curve, ranges) for curve in (base, *others)]
    tuning = TUNING.format(baseline=findings.baseline) if base.held_out else ""
    chosen = CHOSEN if base.chosen else ""
    about = READ.format(baseline=findings.baseline, tuning=tuning, chosen=chosen).strip()
    about += shown_words(len(others), len(curves) - 1, "units")
    return Panels(block.name, f"{findings.display.label} over the learning rate. {about}", charts)


def _chart(
    findings: Findings,
    base: RateCurve,
    curve: RateCurve,
    ranges: tuple[tuple[float, float], tuple[float, float]],
) -> Chart:
    """The curve of one unit: tuning runs as a line, test runs as dots."""
    display = findings.display
    series = []
    if curve is not base:
        line = [(value, mean) for value, mean, _ in _held_out(base, display)]
        series.append(Series(findings.baseline, line, colour="light", dash=0))
    line = [(value, mean) for value, mean, _ in _held_out(curve, display)]
    series.append(Series("tuning runs (held-out)", line, colour="base", dash=0))
    series += _dots(findings, base, curve)
    marks = [Mark(f"chosen: {rate(curve.chosen)}", x=curve.chosen)] if curve.chosen else []
    return Chart(
        curve.unit,
        f"chosen {rate(curve.chosen)}" if curve.chosen else "",
        "learning rate",
        "",
        [line for line in series if line.points],
        x_log=True,
        marks=marks,
        small=True,
        x_range=ranges[0],
        y_range=ranges[1],
        legend=False,
    )


def _dots(findings: Findings, base: RateCurve, curve: RateCurve) -> Iterator[Series]:
    """Yield the test runs as dots, one series per verdict."""
    display = findings.display
    groups: dict[str, list[tuple[float, float, float]]] = {}
    for value, mean, spread in _tested(curve, display):
        if curve is base:
            colour = "base"
        elif value in curve.verdicts:
            interval = curve.verdicts[value].interval
            colour = colour_of(interval, higher_is_better=display.higher_is_better)
        else:
            colour = "light"
        groups.setdefault(colour, []).append((value, mean, spread))
    for colour, points in groups.items():
        name = POINT_COLOURS.get(colour, "test runs")
        yield Series(
            name,
            [(value, mean) for value, mean, _ in points],
            band=[(mean - spread, mean + spread) for _, mean, spread in points],
            kind="dots",
            colour=colour,
            notes=[
                f"{rate(value)}: {mean:.{display.digits}f}, {name}" for value, mean, _ in points
            ],
        )


def _held_out(curve: RateCurve, display: Display) -> list[tuple[float, float, float]]:
    """Rate, mean and spread (not known) of the tuning runs, in the unit of display."""
    return [
        (value, display.factor * curve.held_out[value], 0.0) for value in sorted(curve.held_out)
    ]


def _tested(curve: RateCurve, display: Display) -> list[tuple[float, float, float]]:
    """Rate, mean and standard deviation of the test runs, in the unit of display."""
    points = []
    for value in sorted(curve.tested):
        results = _finite(curve.tested[value])
        if results:
            spread = statistics.stdev(results) if len(results) > 1 else 0.0
            mean = statistics.fmean(results)
            points.append((value, display.factor * mean, display.factor * spread))
    return points


def _finite(results: Mapping[int, float]) -> list[float]:
    """The results of the runs that did not diverge."""
    return [value for value in results.values() if math.isfinite(value)]


def _x_range(curves: Sequence[RateCurve]) -> tuple[float, float]:
    """The range of rates, with room at both ends."""
    rates = [value for curve in curves for value in curve.rates]
    return min(rates) / 1.5, max(rates) * 1.5


def _table(findings: Findings, block: Block, curves: Sequence[RateCurve]) -> Table:
    """The rates of each unit and the verdict against the baseline at each."""
    rates = sorted({value for curve in curves for value in curve.rates})
    near = "1 point" if findings.display.in_points else "1 %"
    columns = [
        "unit",
        "chosen",
        "best",
        "good rates",
        "decades",
        *(f"at {rate(value).replace('-', MINUS)}" for value in rates),
    ]
    rows = []
    for curve in curves:
        row: list[str | Cell] = [
            curve.unit,
            rate_cell(curve.chosen),
            rate_cell(curve.best),
            _good_words(curve),
            "" if curve.decades is None else number_cell(curve.decades, 1),
        ]
        row += [_cell(findings, curve, value) for value in rates]
        rows.append(row)
    about = (
        f"{block.name}: learning rates, and the test result at each with its difference from "
        f"{findings.baseline} at the same rate. Good rates are those next to the best one whose "
        f"results are within {near} of it. In brackets: only tuning runs, on held-out examples"
    )
    return Table(columns, rows, about, "lrrlr" + "r" * len(rates))


def _good_words(curve: RateCurve) -> str:
    """The range of good rates; empty if it is not known."""
    if curve.good is None:
        return ""
    low, high = (rate(value).replace("-", MINUS) for value in curve.good)
    return low if low == high else f"{low} to {high}"


def _cell(findings: Findings, curve: RateCurve, value: float) -> str | Cell:
    """What a unit reached at one rate, and how it compares with the baseline there."""
    display = findings.display
    results = curve.tested.get(value, {})
    finite = _finite(results)
    diverged = len(results) - len(finite)
    if not results:
        held_out = curve.held_out.get(value)
        return "" if held_out is None else f"({display.value(held_out)})"
    if not finite:
        return f"{diverged} diverged"
    mean = statistics.fmean(finite)
    words = display.value(mean)
    words += f", {diverged} diverged" if diverged else ""
    difference = curve.verdicts.get(value)
    if difference is None:
        return Cell(words, display.factor * mean)
    words += f" ({display.difference(difference.difference)} {difference.verdict})"
    look = look_of(difference.interval, findings)
    return Cell(words, display.factor * mean, look=look)
