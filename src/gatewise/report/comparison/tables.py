"""The tables of a comparison: differences, curves, verdicts at equal rates, costs and runs."""

import math
from collections import Counter
from collections.abc import Sequence
from statistics import median

from gatewise.report.charts import Cell, Look, Table
from gatewise.studies import ComparisonResult, ModelAnswer, RunRecord, UnitRow, verdict_line
from gatewise.words import MINUS, number, p_value, rate

Cells = list[str | Cell]
MOST_ROWS = 200
NO_BREAK = "\N{NO-BREAK SPACE}"
LOOKS: dict[str, Look] = {"better": "up", "worse": "down", "baseline": "mute"}


def differences_table(result: ComparisonResult, answer: ModelAnswer) -> Table:
    """Return every unit with its best rate, its difference and its verdict.

    Args:
        result: The comparison.
        answer: Of one model.
    """
    display = result.display
    has_rates = result.has_curves
    # The verdict stands before the numbers, so that it is in sight on a narrow screen.
    columns = ["unit", "verdict", "at the peak" if has_rates else "mean", "sd"]
    columns += ["peak rate", "best rate", "plateau"] if has_rates else ["n"]
    columns += ["difference", "interval", "p"]
    rows: list[Cells] = []
    for row in answer.rows[:MOST_ROWS]:
        height = row.height if math.isfinite(row.height) else row.best
        verdict = Cell(verdict_line(result, row), look=LOOKS.get(row.verdict, ""))
        cells: Cells = [row.unit, verdict, _value(result, height), _value(result, row.spread)]
        if has_rates:
            cells += [_rate(row.peak_rate), _rate(row.best_rate), _plateau(row)]
        else:
            cells.append(Cell(str(row.runs), row.runs))
        cells += [
            Cell(display.difference(row.difference), _full(display.factor * row.difference)),
            display.interval(row.low, row.high).replace(" ", NO_BREAK),
            Cell(p_value(row.p), _full(row.p)),
        ]
        rows.append(cells)
    caption = f"{answer.model}: {display.label}"
    if math.isfinite(answer.confidence):
        caption += f"; intervals at {100 * answer.confidence:.3g} %, p corrected"
    align = "llrr" + ("rrr" if has_rates else "r") + "rlr"
    return Table(columns, rows, caption, align)


def curves_table(result: ComparisonResult, answer: ModelAnswer) -> Table | None:
    """Return the mean of every unit at every rate; None without rates.

    Args:
        result: The comparison.
        answer: Of one model.
    """
    rates = sorted({p.rate for row in answer.rows for p in row.curve if p.rate is not None})
    if len(rates) < 2:
        return None
    rows: list[Cells] = []
    for row in answer.rows[:MOST_ROWS]:
        points = {point.rate: point for point in row.curve}
        cells: Cells = [row.unit]
        for each in rates:
            point = points.get(each)
            if point is None:
                cells.append("")
                continue
            mark = "" if point.judged else "*"
            mark += f" ({point.diverged} div.)" if point.diverged else ""
            shown = f"{result.display.value(point.mean)}{mark}"
            cells.append(Cell(shown, _full(result.display.factor * point.mean)))
        rows.append(cells)
    caption = (
        f"{answer.model}: mean {result.display.label} at each learning rate "
        "(* dropped after the first seeds)"
    )
    return Table(["unit", *map(_rate_words, rates)], rows, caption, "l" + "r" * len(rates))


def equal_rates_table(result: ComparisonResult, answer: ModelAnswer) -> Table | None:
    """Return the differences at equal learning rates; None if no rate has every run.

    Args:
        result: The comparison.
        answer: Of one model.
    """
    rates = [each.rate for each in answer.units[0].equal_rates] if answer.units else []
    if len(rates) < 2:
        return None
    rows: list[Cells] = []
    for row in answer.units[:MOST_ROWS]:
        cells: Cells = [row.unit]
        for each in row.equal_rates:
            low, high = each.low, each.high
            is_good = (low > 0) if result.display.higher_is_better else (high < 0)
            decided = low > 0 or high < 0
            look: Look = "" if not decided else "up" if is_good else "down"
            size = result.display.difference(each.difference)
            cells.append(Cell(size, _full(result.display.factor * each.difference), look=look))
        rows.append(cells)
    caption = (
        f"{answer.model}: difference from {result.baseline} at equal learning rates. Coloured: "
        f"zero is outside the interval, at 5 % for all {len(rates) * len(answer.units)} together"
    )
    names = [_rate_words(each) for each in rates if each is not None]
    return Table(["unit", *names], rows, caption, "l" + "r" * len(rates))


def costs_table(result: ComparisonResult, answer: ModelAnswer) -> Table | None:
    """Return parameters and time of every unit; None if nothing is known.

    Args:
        result: The comparison.
        answer: Of one model.
    """
    records = result.study.of_model(answer.model)
    runs = {label: [one for one in records if one.unit == label] for label in result.units}
    columns = ["unit", "parameters", "seconds of a run (median)"]
    rows: list[Cells] = []
    known = False
    for label, found in runs.items():
        parameters = [one.parameters for one in found if one.parameters is not None]
        seconds = [one.seconds for one in found if one.seconds is not None]
        known = known or bool(parameters or seconds)
        rows.append([label, _middle(parameters, whole=True), _middle(seconds)])
    if not known:
        return None
    return Table(columns, rows[:MOST_ROWS], f"{answer.model}: costs", "lrr")


def metrics_table(result: ComparisonResult, answer: ModelAnswer) -> Table | None:
    """Return the other recorded metrics at each unit's best rate; they are not judged.

    Args:
        result: The comparison.
        answer: Of one model.
    """
    records = result.study.of_model(answer.model)
    names = sorted({name for one in records for name in one.metrics})[:8]
    names = [name for name in names if name != result.header.metric.name]
    if not names:
        return None
    best = {row.unit: row.best_rate for row in answer.rows}
    rows: list[Cells] = []
    for label in (row.unit for row in answer.rows[:MOST_ROWS]):
        at_best = [one for one in records if one.unit == label and _is_at(one, best[label])]
        cells: Cells = [label]
        for name in names:
            values = [value for one in at_best if (value := one.metrics.get(name)) is not None]
            mean = sum(values) / len(values) if values else math.nan
            cells.append(Cell(number(mean) if values else "", _full(mean)))
        rows.append(cells)
    about = f"{answer.model}: other metrics at the best rate, not judged"
    return Table(["unit", *names], rows, about, "l" + "r" * len(names))


def failed_table(result: ComparisonResult) -> Table | None:
    """Return the runs that failed or diverged, with the reason; None if there are none.

    Args:
        result: The comparison.
    """
    rows: list[Cells] = []
    for one in result.study.records:
        collapsed = result.study.has_collapsed(one)
        if one.status == "done" and not collapsed:
            continue
        status = "collapsed" if collapsed else one.status
        shown = _rate_words(one.rate) if one.rate is not None else ""
        rows.append([one.unit, one.model, shown, str(one.seed), status, one.error or ""])
    if not rows:
        return None
    caption = "Runs that failed, diverged or collapsed"
    if len(rows) > MOST_ROWS:
        caption += f": {MOST_ROWS} of {len(rows):,}"
    columns = ["unit", "model", "rate", "seed", "status", "reason"]
    return Table(columns, rows[:MOST_ROWS], caption, "llrrll")


def machines_table(result: ComparisonResult) -> Table | None:
    """Return what the runs were made on, with the number of runs; None if not recorded."""
    counts: dict[str, Counter[str]] = {}
    for one in result.study.records:
        for name, value in one.machine.items():
            counts.setdefault(str(name)[:60], Counter())[str(value)[:120]] += 1
    rows: list[Cells] = []
    for name, values in list(counts.items())[:40]:
        many = len(values) > 1
        for value, count in values.most_common(8):
            rows.append([name, f"{value} ({count} runs)" if many else value])
    return Table(["what", "value"], rows, "Environment", "ll") if rows else None


def _is_at(record: RunRecord, best: float | None) -> bool:
    """Return whether a run was made at a unit's best rate."""
    if best is None or record.rate is None:
        return True
    return math.isclose(record.rate, best, rel_tol=1e-3)


def _middle(values: Sequence[float], *, whole: bool = False) -> Cell:
    """Return the median of values; empty if there are none."""
    if not values:
        return Cell("")
    middle = float(median(values))
    return Cell(f"{middle:,.0f}" if whole else number(middle), middle)


def _value(result: ComparisonResult, value: float) -> Cell:
    """Return a recorded value."""
    if not math.isfinite(value):
        return Cell("")
    return Cell(result.display.value(value), result.display.factor * value)


def _rate(value: float | None) -> str | Cell:
    """Return a learning rate; empty if it is not known."""
    return "" if value is None else Cell(_rate_words(value), value)


def _rate_words(value: float) -> str:
    """Return a learning rate. A line can break at a hyphen, and not at a minus sign."""
    return rate(value).replace("-", MINUS)


def _plateau(row: UnitRow) -> str:
    """Return how wide the top of the curve is, as a factor of the rate."""
    if row.plateau is None or not row.plateau[0]:
        return ""
    return f"×{row.plateau[1] / row.plateau[0]:.2g}"


def _full(value: float) -> float | None:
    """Return a number for a copy as CSV; None if it is not finite."""
    return value if math.isfinite(value) else None
