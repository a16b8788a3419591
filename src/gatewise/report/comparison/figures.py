"""The figures of a comparison: paired differences, differences against cost, learning curves."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from gatewise.report.charts import COLOUR_OF, Chart, Forest, Interval, Mark, Panels, Series
from gatewise.report.comparison.answer import COST_WORDS, decimals
from gatewise.report.comparison.findings import Block, Findings, Metric, Run
from gatewise.stats import Difference
from gatewise.words import signed

HOW_TO_READ = (
    "Each dot is one seed: the unit minus the baseline{alike}. "
    "Each bar is the 95 % confidence interval of the mean. "
    "A coloured bar is a significant difference, corrected for the number of comparisons. "
    "The bars are not corrected, so a grey bar can miss zero without a significant difference."
)
ALIKE = ", trained on the same batches from the same shared initial weights"
NARROW = 1.05  # costs within this factor of each other are not worth an axis
COST_GROUPS = {"better": "up", "worse": "down", "no difference shown": "flat"}
CurvePoint = tuple[float, float, float]  # epoch, mean, standard deviation


def how_to_read(findings: Findings) -> str:
    """Return what dots, bars and colours mean.

    Whether other training loops used the same batches and initial weights is not known.
    """
    return HOW_TO_READ.format(alike="" if findings.origin == "recorder" else ALIKE)


def forests(findings: Findings) -> Iterator[Forest]:
    """Yield one forest plot per block, all on one scale, so that they can be compared."""
    blocks = [block for block in findings.blocks if block.compared]
    edges = [0.0]
    for block in blocks:
        for difference in block.compared:
            edges += difference.interval
            edges += block.differences(difference.name).values()
    edges = [edge for edge in edges if math.isfinite(edge)]
    room = 0.05 * (max(edges) - min(edges)) or 1.0
    for block in blocks:
        yield Forest(
            block.name,
            _seed_words(block),
            difference_label(findings),
            _rows(findings, block),
            p_label="p (Holm)",
            decimals=decimals(findings),
            range=(min(edges) - room, max(edges) + room),
        )


def difference_label(findings: Findings) -> str:
    """Return ``test accuracy minus relu, points``."""
    unit = ", points" if findings.metric.factor != 1 else ""
    return f"{findings.metric.name} minus {findings.baseline}{unit}"


def _seed_words(block: Block) -> str:
    """How many seeds the units of a block have."""
    counts = sorted({difference.n for difference in block.compared})
    if len(counts) == 1:
        return f"{counts[0]} seeds per unit"
    return f"{counts[0]} to {counts[-1]} seeds per unit"


def _rows(findings: Findings, block: Block) -> list[Interval]:
    """One row per unit, the best first."""
    best_first = -1 if findings.metric.higher_is_better else 1
    rows = []
    for difference in sorted(block.compared, key=lambda each: best_first * each.difference):
        low, high = difference.interval
        gaps = block.differences(difference.name)
        digits = decimals(findings)
        rows.append(
            Interval(
                difference.name,
                difference.difference,
                low,
                high,
                dots=list(gaps.values()),
                verdict=difference.verdict,
                p=difference.p_corrected,
                dot_notes=[f"seed {seed}: {signed(gap, digits)}" for seed, gap in gaps.items()],
            )
        )
    return rows


def cost_charts(findings: Findings, block: Block) -> Iterator[Chart | str]:
    """Yield the difference against each cost; for a cost that hardly differs, a few words."""
    for cost in ("seconds", "flops", "parameters") if block.compared else ():
        ratios: dict[str, float] = {}
        for difference in block.compared:
            ratio = block.ratio(difference.name, cost)
            if math.isfinite(ratio):
                ratios[difference.name] = ratio
        known = [1.0, *ratios.values()]
        widest = max(known) / min(known)
        if not ratios:
            yield f"{COST_WORDS[cost]} (not known)"
        elif widest < NARROW:
            yield f"{COST_WORDS[cost]} (within {100 * (widest - 1):.1f} % of each other)"
        else:
            yield _cost_chart(findings, block, cost, ratios)


def _cost_chart(findings: Findings, block: Block, cost: str, ratios: Mapping[str, float]) -> Chart:
    """The difference of each unit against its cost, coloured by its verdict."""
    baseline = findings.baseline
    placed = [difference for difference in block.compared if difference.name in ratios]
    note = f"{baseline}: the baseline"
    series = [Series(baseline, [(1.0, 0.0)], kind="dots", colour="base", notes=[note])]
    for name, colour in COST_GROUPS.items():
        members = [each for each in placed if COLOUR_OF.get(each.verdict, "flat") == colour]
        if members:
            series.append(_cost_series(findings, name, colour, members, ratios))
    marks = [Mark(each.name, ratios[each.name], each.difference) for each in placed]
    best = ", ".join(front(block, ratios))
    return Chart(
        f"Against {COST_WORDS[cost]}",
        f"No cheaper unit is better, with intervals that do not overlap, than: {best}.",
        f"{COST_WORDS[cost]}, relative to {baseline}",
        difference_label(findings),
        series,
        marks=[*marks, Mark(baseline, 1.0, 0.0)],
    )


def _cost_series(
    findings: Findings,
    name: str,
    colour: str,
    members: Sequence[Difference],
    ratios: Mapping[str, float],
) -> Series:
    """The units with one verdict: difference and interval at their cost."""
    points = []
    notes = []
    for member in members:
        ratio = ratios[member.name]
        size = signed(member.difference, decimals(findings))
        points.append((ratio, member.difference))
        notes.append(f"{member.name}: {size} at {ratio:.2f}×")
    band = [member.interval for member in members]
    return Series(name, points, band=band, kind="dots", colour=colour, notes=notes)


def front(block: Block, ratios: Mapping[str, float]) -> list[str]:
    """Return the units that no unit of the same or a lower cost beats.

    One unit beats another if its whole interval is better.

    Args:
        block: The block, whose baseline counts as a unit with cost 1 and difference 0.
        ratios: The cost of each unit relative to the baseline.
    """
    sign = 1 if block.metric.higher_is_better else -1
    spans = {block.baseline: (1.0, 0.0, 0.0)}
    for difference in block.compared:
        if difference.name in ratios and math.isfinite(difference.interval[0]):
            low, high = sorted(sign * edge for edge in difference.interval)
            spans[difference.name] = (ratios[difference.name], low, high)

    def is_beaten(cost: float, high: float) -> bool:
        """Whether a unit of at most this cost is better with its whole interval."""
        return any(other <= cost and low > high for other, low, _ in spans.values())

    return [unit for unit, (cost, _, high) in spans.items() if not is_beaten(cost, high)]


def curve_panels(block: Block, metric: Metric, words: str) -> Panels | None:
    """Return a small chart per unit, with the baseline behind it; None without curves.

    Args:
        block: The runs.
        metric: What the curves show.
        words: The metric in words.
    """
    curves = {unit: mean_curve(runs, metric) for unit, runs in block.runs.items()}
    if not any(len(points) > 1 for points in curves.values()):
        return None
    edges = []
    for points in curves.values():
        for _, mean, spread in points:
            edges += [mean - spread, mean + spread]
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
    )
    return Panels(block.name, about, charts)


def mean_curve(runs: Sequence[Run], metric: Metric) -> list[CurvePoint]:
    """Return mean and standard deviation at the epochs that all finished runs have."""
    values: dict[float, list[float]] = {}
    finished = [run for run in runs if run.status == "finished"]
    for run in finished:
        for entry in run.record.get("curve") or ():
            value = metric.of(entry)
            if math.isfinite(value):
                values.setdefault(float(entry["epoch"]), []).append(value)
    points = []
    for epoch, column in sorted(values.items()):
        if len(column) == len(finished):
            spread = statistics.stdev(column) if len(column) > 1 else 0.0
            points.append((epoch, statistics.fmean(column), spread))
    return points


def _curve_series(name: str, points: Sequence[CurvePoint], colour: str) -> Series:
    """A mean curve with one standard deviation to each side."""
    line = [(epoch, mean) for epoch, mean, _ in points]
    band = [(mean - spread, mean + spread) for _, mean, spread in points]
    return Series(name, line, band, colour=colour)
