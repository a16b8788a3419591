"""The figures of a comparison: paired differences, differences against cost, learning curves."""

import math
from collections.abc import Iterator, Mapping, Sequence

from gatewise.report.charts import Chart, Forest, Interval, Mark, Panels, Series, colour_of
from gatewise.report.comparison.findings import Block, Findings
from gatewise.report.comparison.limits import (
    MOST_BLOCKS,
    MOST_DOTS,
    MOST_PANELS,
    MOST_POINTS,
    MOST_UNITS,
    both_ends,
    shown_words,
    spread_out,
)
from gatewise.stats import Difference, PooledDifference, mean, standard_deviation
from gatewise.studies import (
    COST_WORDS,
    PlannedRun,
    beaten_by,
    best_first,
    level_words,
    pooled_rows,
    verdict_words,
)
from gatewise.words import signed

HOW_TO_READ = (
    "Each dot is one seed: the unit minus the baseline{alike}. "
    "Each bar is the confidence interval of the mean, corrected for the number of comparisons. "
    "A bar that does not touch zero is coloured: green is better than the baseline, red is worse. "
    "p-values are corrected in the same way."
)
TUNED = (
    " The bars include the learning rates next to the chosen ones, so they are not centred on the "
    "mean."
)
ALIKE = ", trained on the same batches from the same shared initial weights"
NARROW = 1.05  # costs within this factor of each other are not worth an axis
COST_GROUPS = {"up": "better", "down": "worse", "flat": "undecided or equivalent"}
CurvePoint = tuple[float, float, float]  # epoch, mean, standard deviation


def how_to_read(findings: Findings) -> str:
    """Return what dots, bars and colours mean.

    Whether other training loops used the same batches and initial weights is not known.

    Args:
        findings: The comparison.
    """
    words = HOW_TO_READ.format(alike=ALIKE if findings.origin in ("", "gw.compare") else "")
    if findings.result.tuned:
        words += TUNED
    return words + shown_words(MOST_BLOCKS, len(findings.blocks), "blocks")


def forests(findings: Findings) -> Iterator[Forest]:
    """Yield one forest plot per block, all on one scale, so that they can be compared.

    Args:
        findings: The comparison.
    """
    drawn: list[tuple[Block, list[Interval]]] = []
    for block in findings.blocks[:MOST_BLOCKS]:
        rows = _rows(findings, block)
        if rows:
            drawn.append((block, rows))
    edges = [0.0]
    for _, rows in drawn:
        for row in rows:
            edges += [row.value, row.low, row.high, *row.dots]
    edges = [edge for edge in edges if math.isfinite(edge)]
    room = 0.05 * (max(edges) - min(edges)) or 1.0
    for block, rows in drawn:
        yield Forest(
            block.name,
            _forest_words(block, len(rows)),
            difference_label(findings),
            rows,
            decimals=findings.display.digits,
            range=(min(edges) - room, max(edges) + room),
            level=_percent(block.compared[0].confidence),
            higher_is_better=findings.display.higher_is_better,
        )


def pooled_forests(findings: Findings) -> Iterator[Forest]:
    """Yield the mean over these blocks, and over blocks like these if there are five.

    Args:
        findings: The comparison.
    """
    rows = pooled_rows(findings.result)
    if not rows:
        return
    count = max(row.blocks for row in rows)
    these = []
    new = []
    for row in rows:
        these.append((row, row.interval, row.verdict, row.p_corrected))
        if row.new_blocks is not None:
            new.append(_over_new_blocks(findings, row))
    about = "All blocks count the same. It says nothing about other networks or data sets."
    yield _pooled_forest(findings, f"Mean over these {count} blocks", about, these)
    if new:
        about = f"The {count} blocks count as a sample of networks and data sets."
        yield _pooled_forest(findings, "Mean over blocks like these", about, new)


def _over_new_blocks(findings: Findings, row: PooledDifference) -> "PooledRow":
    """A unit over blocks like these.

    The blocks' differences are those at the chosen rates. In a tuned study such a difference needs
    the neighbouring rates too: there is no interval unless the mean over these blocks has the same
    verdict.
    """
    verdict = row.verdict_new_blocks or ""
    ends = row.new_blocks or (math.nan, math.nan)
    outside = ends[0] > 0 or ends[1] < 0
    if findings.result.tuned and outside and row.verdict != verdict:
        return row, (math.nan, math.nan), "undecided", None
    return row, ends, verdict, None


PooledRow = tuple[PooledDifference, tuple[float, float], str, float | None]


def _pooled_forest(findings: Findings, title: str, about: str, rows: Sequence[PooledRow]) -> Forest:
    """A forest plot of means over blocks."""
    sign = -1 if findings.display.higher_is_better else 1
    ordered = sorted(rows, key=lambda row: sign * row[0].difference)
    shown = both_ends(ordered, MOST_UNITS)
    intervals = []
    for row, ends, verdict, p in shown:
        low, high = _shown(findings, ends)
        value = findings.display.factor * row.difference
        known = p if math.isfinite(low) else None
        intervals.append(Interval(row.name, value, low, high, verdict=verdict, p=known))
    return Forest(
        title,
        about + shown_words(len(shown), len(rows), "units"),
        difference_label(findings),
        intervals,
        decimals=findings.display.digits,
        level=_percent(rows[0][0].confidence),
        higher_is_better=findings.display.higher_is_better,
    )


def _percent(confidence: float) -> str:
    """A level: ``99.3 %``."""
    share = 100 * confidence
    return f"{share:.1f} %" if share % 1 > 1e-9 and share < 99.95 else f"{share:.4g} %"


def difference_label(findings: Findings) -> str:
    """Return ``test accuracy minus relu, points``.

    Args:
        findings: The comparison.
    """
    unit = ", points" if findings.display.in_points else ""
    return f"{findings.display.name} minus {findings.baseline}{unit}"


def _forest_words(block: Block, rows: int) -> str:
    """How many seeds the units of a block have, and what the bars are."""
    counts = sorted({difference.n for difference in block.compared})
    few, many = counts[0], counts[-1]
    seeds = f"{few} seeds per unit" if few == many else f"{few} to {many} seeds per unit"
    words = f"{seeds}. Bars: {level_words(block.comparison)}." if block.comparison else f"{seeds}."
    seeds_shown = min(many, MOST_DOTS)
    words += shown_words(seeds_shown, many, "dots per unit")
    return words + shown_words(rows, len(block.compared), "units (the best and the worst)")


def _rows(findings: Findings, block: Block) -> list[Interval]:
    """One row per unit, the best first."""
    if block.comparison is None:
        return []
    digits = findings.display.digits
    rows = []
    for difference in both_ends(best_first(block.comparison), MOST_UNITS):
        low, high = _shown(findings, difference.interval)
        gaps = spread_out(list(block.differences(difference.name).items()), MOST_DOTS)
        rows.append(
            Interval(
                difference.name,
                findings.display.factor * difference.difference,
                low,
                high,
                dots=[gap for _, gap in gaps],
                verdict=verdict_words(findings.result, difference),
                p=difference.p_corrected if math.isfinite(low) else None,
                dot_notes=[f"seed {seed}: {signed(gap, digits)}" for seed, gap in gaps],
            )
        )
    return rows


def _shown(findings: Findings, ends: tuple[float, float]) -> tuple[float, float]:
    """The ends of an interval in the unit of display."""
    factor = findings.display.factor
    return factor * ends[0], factor * ends[1]


def cost_charts(findings: Findings, block: Block) -> Iterator[Chart | str]:
    """Yield the difference against each cost; for a cost that hardly differs, a few words.

    Args:
        findings: The comparison.
        block: One of its blocks.
    """
    beaten = beaten_by(findings.result, block.place) if block.compared else None
    for cost in ("seconds", "flops", "parameters") if block.compared else ():
        ratios: dict[str, float] = {}
        for difference in block.compared:
            ratio = block.ratio(difference.name, cost)
            if math.isfinite(ratio) and math.isfinite(difference.difference):
                ratios[difference.name] = ratio
        known = [1.0, *ratios.values()]
        widest = max(known) / min(known)
        if not ratios:
            yield f"{COST_WORDS[cost]} (not known)"
        elif widest < NARROW:
            yield f"{COST_WORDS[cost]} (within {100 * (widest - 1):.1f} % of each other)"
        else:
            about = _front_words(block, ratios, beaten)
            yield _cost_chart(findings, block, cost, ratios, about)


def _cost_chart(
    findings: Findings,
    block: Block,
    cost: str,
    ratios: Mapping[str, float],
    about: str,
) -> Chart:
    """The difference of each unit against its cost, coloured by its interval."""
    baseline = findings.baseline
    placed = [difference for difference in block.compared if difference.name in ratios]
    placed = spread_out(placed, MOST_UNITS)
    note = f"{baseline}: the baseline"
    series = [Series(baseline, [(1.0, 0.0)], kind="dots", colour="base", notes=[note])]
    for colour, name in COST_GROUPS.items():
        members = [member for member in placed if _colour(findings, member) == colour]
        if members:
            series.append(_cost_series(findings, name, colour, members, ratios))
    factor = findings.display.factor
    marks = []
    for member in placed:
        marks.append(Mark(member.name, ratios[member.name], factor * member.difference))
    return Chart(
        f"Against {COST_WORDS[cost]}",
        about + shown_words(len(placed), len(ratios), "units"),
        f"{COST_WORDS[cost]}, relative to {baseline}",
        difference_label(findings),
        series,
        marks=[*marks, Mark(baseline, 1.0, 0.0)],
    )


def _colour(findings: Findings, difference: Difference) -> str:
    """The colour of a unit."""
    return colour_of(difference.interval, higher_is_better=findings.display.higher_is_better)


def _cost_series(
    findings: Findings,
    name: str,
    colour: str,
    members: Sequence[Difference],
    ratios: Mapping[str, float],
) -> Series:
    """The units of one colour: difference and interval at their cost."""
    points = []
    notes = []
    for member in members:
        ratio = ratios[member.name]
        size = findings.display.difference(member.difference)
        points.append((ratio, findings.display.factor * member.difference))
        notes.append(f"{member.name}: {size} at {ratio:.2f}×")
    band = [_shown(findings, member.interval) for member in members]
    return Series(name, points, band=band, kind="dots", colour=colour, notes=notes)


def _front_words(
    block: Block,
    ratios: Mapping[str, float],
    beaten: Mapping[str, Sequence[str]] | None,
) -> str:
    """The units that no unit of the same or a lower cost is shown to beat."""
    if beaten is None:
        return "There are too many units to test each against each."
    costs = {block.baseline: 1.0, **ratios}
    best = []
    for unit, cost in costs.items():
        if not any(costs.get(other, math.inf) <= cost for other in beaten[unit]):
            best.append(unit)
    return (
        f"Not shown to be beaten by a unit of the same or a lower cost: {', '.join(best)} "
        "(each pair tested, corrected for all pairs)."
    )


def curve_panels(block: Block, metric: str, factor: float, words: str) -> Panels | None:
    """Return a small chart per unit, with the baseline behind it; None without curves.

    Args:
        block: The runs.
        metric: What the curves show.
        factor: What a recorded value is multiplied with.
        words: The metric in words.
    """
    seeds = max(len(runs) for runs in block.runs.values())
    names = [unit for unit in block.runs if unit != block.baseline]
    kept = [block.baseline, *spread_out(names, MOST_PANELS)]
    curves = {unit: mean_curve(block.runs[unit], metric, factor) for unit in kept}
    if not any(len(points) > 1 for points in curves.values()):
        return None
    edges = []
    for points in curves.values():
        for _, middle, spread in points:
            edges += [middle - spread, middle + spread]
    room = 0.04 * (max(edges) - min(edges)) or 1.0
    behind = _curve_series(block.baseline, curves[block.baseline], "light")
    charts = []
    for unit, points in curves.items():
        if unit == block.baseline or len(points) < 2:
            continue
        charts.append(
            Chart(
                unit,
                "",
                "epoch",
                "",
                [behind, _curve_series(unit, points, "base")],
                small=True,
                y_range=(min(edges) - room, max(edges) + room),
                legend=False,
            )
        )
    about = (
        f"{words} by epoch. Line: mean over seeds. Area: one standard deviation to each side. "
        f"Grey: {block.baseline}."
        f"{shown_words(len(kept) - 1, len(names), 'units')}"
        f"{shown_words(min(seeds, MOST_DOTS), seeds, 'seeds per unit')}"
    )
    return Panels(block.name, about, charts)


def mean_curve(runs: Sequence[PlannedRun], metric: str, factor: float) -> list[CurvePoint]:
    """Return mean and standard deviation at the epochs that all finished runs have.

    Args:
        runs: Of one unit.
        metric: Its name in the curves.
        factor: What a recorded value is multiplied with.
    """
    values: dict[float, list[float]] = {}
    finished = spread_out([run for run in runs if run.status == "finished"], MOST_DOTS)
    for run in finished:
        for entry in run.record.get("curve") or ():
            value = entry.get(metric)
            if isinstance(value, int | float) and math.isfinite(value):
                values.setdefault(float(entry["epoch"]), []).append(factor * value)
    common = [epoch for epoch, column in sorted(values.items()) if len(column) == len(finished)]
    points = []
    for epoch in spread_out(common, MOST_POINTS):
        points.append((epoch, mean(values[epoch]), standard_deviation(values[epoch])))
    return points


def _curve_series(name: str, points: Sequence[CurvePoint], colour: str) -> Series:
    """A mean curve with one standard deviation to each side."""
    line = [(epoch, middle) for epoch, middle, _ in points]
    band = [(middle - spread, middle + spread) for _, middle, spread in points]
    return Series(name, line, band, colour=colour)
