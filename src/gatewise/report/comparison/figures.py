"""The figures of a comparison: paired differences, differences against cost, learning curves."""

import math
import statistics
from collections.abc import Iterator, Sequence

from gatewise.report.charts import COLOUR_OF, Chart, Forest, Interval, Mark, Panels, Series
from gatewise.report.comparison.answer import COST_WORDS, decimals
from gatewise.report.comparison.findings import Block, Findings, Metric, Run
from gatewise.stats import Difference
from gatewise.words import signed

HOW_TO_READ = (
    "Each dot is a seed: the unit minus the baseline{alike}. Bars are 95 % intervals of the mean. "
    "Colour is the verdict, which is corrected for the number of comparisons; an "
    "interval is not, and can leave out zero without one."
)
ALIKE = " with the same batches and the same shared initial weights"
NARROW = 1.05  # costs closer to each other than this are not worth an axis


def how_to_read(found: Findings) -> str:
    """What dots, bars and colours mean.

    That runs were alike is not known of those of other training loops.
    """
    return HOW_TO_READ.format(alike="" if found.origin == "recorder" else ALIKE)


def forests(found: Findings) -> Iterator[Forest]:
    """One forest plot a block, all on one scale, so that lengths can be compared from one to the next."""
    blocks = [block for block in found.blocks if block.compared]
    edges = [
        0.0,
        *(edge for block in blocks for one in block.compared for edge in _reach(block, one)),
    ]
    room = 0.05 * (max(edges) - min(edges)) or 1.0
    for block in blocks:
        yield Forest(
            block.name,
            _pairing(block),
            difference_label(found),
            _rows(found, block),
            p_label="p (Holm)",
            decimals=decimals(found),
            range=(min(edges) - room, max(edges) + room),
        )


def difference_label(found: Findings) -> str:
    """``test accuracy minus relu, points``."""
    return f"{found.metric.name} minus {found.baseline}" + ", points" * (found.metric.factor != 1)


def _pairing(block: Block) -> str:
    counts = sorted({one.n for one in block.compared})
    return (
        f"{counts[0]} seeds for each unit"
        if len(counts) == 1
        else f"{counts[0]} to {counts[-1]} seeds for a unit"
    )


def _rows(found: Findings, block: Block) -> list[Interval]:
    best_first = -1 if found.metric.higher_is_better else 1
    return [
        _row(found, block, one)
        for one in sorted(block.compared, key=lambda one: best_first * one.difference)
    ]


def _row(found: Findings, block: Block, one: Difference) -> Interval:
    gaps = block.differences(one.name)
    notes = [f"seed {seed}: {signed(gap, decimals(found))}" for seed, gap in gaps.items()]
    return Interval(
        one.name,
        one.difference,
        *one.interval,
        dots=list(gaps.values()),
        verdict=one.verdict,
        p=one.p_corrected,
        dot_notes=notes,
    )


def _reach(block: Block, one: Difference) -> list[float]:
    return [v for v in (*one.interval, *block.differences(one.name).values()) if math.isfinite(v)]


def cost_charts(found: Findings, block: Block) -> Iterator[Chart | str]:
    """The difference against each cost.

    For a cost that is all but equal, a sentence that says so.
    """
    for what in ("seconds", "flops", "parameters") if block.compared else ():
        ratios = {one.name: block.ratio(one.name, what) for one in block.compared}
        known = [ratio for ratio in (1.0, *ratios.values()) if math.isfinite(ratio)]
        if len(known) < 2:
            yield f"{COST_WORDS[what]} (not known)"
        elif max(known) / min(known) < NARROW:
            yield f"{COST_WORDS[what]} (within {100 * (max(known) / min(known) - 1):.1f} % of each other)"
        else:
            yield _cost_chart(found, block, what, ratios)


def _cost_chart(found: Findings, block: Block, what: str, ratios: dict[str, float]) -> Chart:
    placed = [one for one in block.compared if math.isfinite(ratios[one.name])]
    base = Series(
        found.baseline,
        [(1.0, 0.0)],
        kind="dots",
        colour="base",
        notes=[f"{found.baseline}: the baseline"],
    )
    groups: list[tuple[str, str]] = [
        ("better", "up"),
        ("worse", "down"),
        ("no difference shown", "flat"),
    ]
    drawn = [_cost_series(found, name, colour, placed, ratios) for name, colour in groups]
    marks = [Mark(one.name, ratios[one.name], one.difference) for one in placed]
    best = f"Not beaten by anything as cheap or cheaper (intervals apart): {', '.join(front(block, ratios))}."
    return Chart(
        f"Against {COST_WORDS[what]}",
        best,
        f"{COST_WORDS[what]}, times {found.baseline}’s",
        difference_label(found),
        [base, *(each for each in drawn if each.points)],
        marks=[*marks, Mark(found.baseline, 1.0, 0.0)],
    )


def _cost_series(
    found: Findings,
    name: str,
    colour: str,
    placed: Sequence[Difference],
    ratios: dict[str, float],
) -> Series:
    members = [one for one in placed if COLOUR_OF.get(one.verdict, "flat") == colour]
    places = [(ratios[one.name], one.difference) for one in members]
    notes = [
        f"{one.name}: {signed(one.difference, decimals(found))} at {ratios[one.name]:.2f}×"
        for one in members
    ]
    return Series(
        name,
        places,
        band=[one.interval for one in members],
        kind="dots",
        colour=colour,
        notes=notes,
    )


def front(block: Block, ratios: dict[str, float]) -> list[str]:
    """The units, and the baseline, that no other with the same cost or less lies above with its whole interval."""
    sign = 1 if block.metric.higher_is_better else -1
    spans = {block.baseline: (1.0, 0.0, 0.0)}
    for one in block.compared:
        if math.isfinite(ratios[one.name]) and math.isfinite(one.interval[0]):
            low, high = sorted(sign * edge for edge in one.interval)
            spans[one.name] = (ratios[one.name], low, high)

    def beaten(cost: float, high: float) -> bool:
        return any(other <= cost and low > high for other, low, _ in spans.values())

    return [unit for unit, (cost, _, high) in spans.items() if not beaten(cost, high)]


def curve_panels(
    found: Findings, block: Block, key: str, factor: float, words: str
) -> Panels | None:
    """A small chart a unit, the baseline behind it.

    Mean over seeds, and one standard deviation about it.
    """
    shown = Metric(key, factor, True)
    curves = {unit: curve(runs, shown) for unit, runs in block.runs.items()}
    edges = [
        edge
        for points in curves.values()
        for _, mean, spread in points
        for edge in (mean - spread, mean + spread)
    ]
    if not any(len(points) > 1 for points in curves.values()):
        return None
    room = 0.04 * (max(edges) - min(edges)) or 1.0
    span = (min(edges) - room, max(edges) + room)
    behind = _curve_series(block.baseline, curves[block.baseline], "light")
    charts = [
        Chart(
            unit,
            "",
            "epoch",
            "",
            [behind, _curve_series(unit, points, "base")],
            small=True,
            y_range=span,
            legend=False,
        )
        for unit, points in curves.items()
        if unit != block.baseline and len(points) > 1
    ]
    about = f"{words} by epoch: the mean over seeds, and one standard deviation about it; {block.baseline} in grey."
    return Panels(block.name, about, charts)


def curve(runs: Sequence[Run], metric: Metric) -> list[tuple[float, float, float]]:
    """Epoch, mean and standard deviation over the runs that finished, at the epochs that all of them have."""
    found: dict[float, list[float]] = {}
    finished = [run for run in runs if run.status == "finished"]
    for run in finished:
        for entry in run.record.get("curve") or ():
            value = metric.of(entry)
            if math.isfinite(value):
                found.setdefault(float(entry["epoch"]), []).append(value)
    whole = {
        epoch: values for epoch, values in sorted(found.items()) if len(values) == len(finished)
    }
    return [
        (e, statistics.fmean(v), statistics.stdev(v) if len(v) > 1 else 0.0)
        for e, v in whole.items()
    ]


def _curve_series(name: str, points: Sequence[tuple[float, float, float]], colour: str) -> Series:
    band = [(mean - spread, mean + spread) for _, mean, spread in points]
    return Series(name, [(epoch, mean) for epoch, mean, _ in points], band, colour=colour)
