"""The figures of a comparison: paired differences, differences against cost, learning curves."""

import math
import statistics
from collections.abc import Iterator, Sequence

from gatewise.report.charts import Chart, Colour, Forest, Interval, Mark, Panels, Series
from gatewise.report.comparison_answer import COST_WORDS, decimals
from gatewise.report.findings import Block, Findings, Metric, Run
from gatewise.report.forest_layout import COLOUR_OF
from gatewise.report.words import number, signed
from gatewise.studies.statistics import Difference

NARROW = 1.05  # costs closer to each other than this are not worth an axis


def forests(found: Findings) -> Iterator[Forest]:
    """One forest plot a block, all on one scale, so that lengths can be compared from one to the next."""
    blocks = [block for block in found.blocks if block.comparison]
    gaps = [gap for block in blocks for one in block.comparison.differences for gap in _reach(block, one)]  # type: ignore[union-attr]
    low, high = min([0.0, *gaps]), max([0.0, *gaps])
    room = 0.05 * (high - low) or 1.0
    for block in blocks:
        yield Forest(
            block.name, _pairing(block), f"{found.metric.name} minus {found.baseline}{', points' * (found.metric.factor != 1)}",
            _rows(found, block), p_label="p (Holm)", decimals=decimals(found), range=(low - room, high + room),
        )  # fmt: skip


def _pairing(block: Block) -> str:
    counts = {one.n for one in block.comparison.differences} if block.comparison else {0}
    seeds = f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    return f"Each dot is a seed, {seeds} for each unit: the same batches and shared initial weights on both sides. Bars are 95 % intervals of the mean."


def _rows(found: Findings, block: Block) -> list[Interval]:
    assert block.comparison  # noqa: S101 - the caller has looked
    best_first = -1 if found.metric.higher_is_better else 1
    ordered = sorted(block.comparison.differences, key=lambda one: best_first * one.difference)
    return [_row(found, block, one) for one in ordered]


def _row(found: Findings, block: Block, one: Difference) -> Interval:
    gaps = block.differences(one.name)
    notes = [f"seed {seed}: {signed(gap, decimals(found))}" for seed, gap in gaps.items()]
    return Interval(
        one.name, one.difference, *one.interval, dots=list(gaps.values()), verdict=one.verdict, p=one.p_corrected,
        dot_notes=notes,
    )  # fmt: skip


def _reach(block: Block, one: Difference) -> list[float]:
    return [v for v in (*one.interval, *block.differences(one.name).values()) if math.isfinite(v)]


def cost_charts(found: Findings, block: Block) -> Iterator[Chart | str]:
    """The difference against each cost; for a cost that is all but equal, a sentence that says so."""
    if block.comparison is None:
        return
    units = [one.name for one in block.comparison.differences]
    for what in ("seconds", "flops", "parameters"):
        ratios = {unit: block.ratio(unit, what) for unit in units}
        known = [ratio for ratio in (1.0, *ratios.values()) if math.isfinite(ratio)]
        if len(known) < 2:
            yield f"{COST_WORDS[what]}: not known"
        elif max(known) / min(known) < NARROW:
            yield f"{COST_WORDS[what]}: within {100 * (max(known) / min(known) - 1):.1f} % of each other"
        else:
            yield _cost_chart(found, block, what, ratios)


def _cost_chart(found: Findings, block: Block, what: str, ratios: dict[str, float]) -> Chart:
    differences = [one for one in block.comparison.differences if math.isfinite(ratios[one.name])]  # type: ignore[union-attr]
    base = Series(found.baseline, [(1.0, 0.0)], kind="dots", colour="base", notes=[f"{found.baseline}: the baseline"])
    groups = [
        _cost_series(
            found, name, colour, [one for one in differences if COLOUR_OF.get(one.verdict, "flat") == colour], ratios
        )
        for name, colour in (("better", "up"), ("worse", "down"), ("no difference shown", "flat"))
    ]
    marks = [Mark(one.name, ratios[one.name], one.difference) for one in differences] + [Mark(found.baseline, 1.0, 0.0)]
    return Chart(
        f"{block.name}: against {COST_WORDS[what]}", front_words(found, block, ratios),
        f"{COST_WORDS[what]}, times {found.baseline}’s", f"{found.metric.label.replace(',', f' minus {found.baseline},', 1)}",
        [base, *(group for group in groups if group.points)], marks=[*marks, Mark(found.baseline, None, 0.0)],
    )  # fmt: skip


def _cost_series(
    found: Findings, name: str, colour: Colour, members: Sequence[Difference], ratios: dict[str, float]
) -> Series:
    places = [(ratios[one.name], one.difference) for one in members]
    notes = [f"{one.name}: {signed(one.difference, decimals(found))} at {number(ratios[one.name])}×" for one in members]
    return Series(name, places, band=[one.interval for one in members], kind="dots", colour=colour, notes=notes)


def front_words(found: Findings, block: Block, ratios: dict[str, float]) -> str:
    """Which units no other beats at the same cost or less, said only where intervals are apart."""
    kept = front(block, ratios)
    return f"Not beaten by anything as cheap or cheaper (intervals apart): {', '.join(kept)}. Bars are 95 % intervals."


def front(block: Block, ratios: dict[str, float]) -> list[str]:
    """The units, and the baseline, that no other with the same cost or less lies above with its whole interval."""
    sign = 1 if block.metric.higher_is_better else -1
    spans = {block.baseline: (1.0, 0.0, 0.0)}
    for one in block.comparison.differences if block.comparison else ():
        if math.isfinite(ratios[one.name]) and math.isfinite(one.interval[0]):
            low, high = sorted(sign * edge for edge in one.interval)
            spans[one.name] = (ratios[one.name], low, high)
    return [unit for unit, (cost, _, high) in spans.items()
            if not any(c <= cost and low > high for other, (c, low, _) in spans.items() if other != unit)]  # fmt: skip


def curve_panels(found: Findings, block: Block, key: str, factor: float, words: str) -> Panels | None:
    """A small chart a unit, the baseline behind it: mean over seeds, and one standard deviation about it."""
    shown = Metric(key, factor, True)
    curves = {unit: curve(runs, shown) for unit, runs in block.runs.items()}
    edges = [
        edge for points in curves.values() for _, mean, spread in points for edge in (mean - spread, mean + spread)
    ]
    if not any(len(points) > 1 for points in curves.values()):
        return None
    room = 0.04 * (max(edges) - min(edges)) or 1.0
    span = (min(edges) - room, max(edges) + room)
    behind = _curve_series(block.baseline, curves[block.baseline], "light")
    charts = [
        Chart(unit, "", "epoch", "", [behind, _curve_series(unit, points, "base")], small=True, y_range=span)
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
    whole = {epoch: values for epoch, values in sorted(found.items()) if len(values) == len(finished)}
    return [(e, statistics.fmean(v), statistics.stdev(v) if len(v) > 1 else 0.0) for e, v in whole.items()]


def _curve_series(name: str, points: Sequence[tuple[float, float, float]], colour: Colour) -> Series:
    band = [(mean - spread, mean + spread) for _, mean, spread in points]
    return Series(name, [(epoch, mean) for epoch, mean, _ in points], band, colour=colour)
