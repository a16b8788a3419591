"""The tables of a comparison: paired differences, costs, ranks and seeds needed."""

import math
import statistics
from collections.abc import Mapping
from typing import Any

from gatewise.report.charts import Cell, Table
from gatewise.report.comparison.answer import COST_WORDS, LOOK_OF, decimals, needed
from gatewise.report.comparison.findings import COSTS, Block, Findings
from gatewise.stats import Difference
from gatewise.words import MINUS, number, p_value, signed

EFFECTS = {
    True: (1.0, 0.5),
    False: (0.1, 0.01),
}  # differences one may wish to see: points of a hundred, or a loss
PAIRED = ("unit", "n", "mean", "spread", "difference", "95 %", "p", "p (Holm)", "verdict")


def paired_table(found: Findings, block: Block) -> Table | None:
    """Mean, spread and n of every unit, and its difference from the baseline with interval, tests and verdict."""
    base, digits = block.comparison, decimals(found)
    if base is None:
        return None
    own = [number_cell(v, digits) for v in (base.baseline_mean, base.baseline_spread)]
    rows = [
        [base.baseline, count_cell(base.n), *own, "", "", "", "", Cell("the baseline", look="mute")]
    ]
    rows += [_paired_row(one, digits) for one in block.compared]
    return Table(PAIRED, rows, f"{block.name}: {found.metric.label}", "lrrrrrrrl")


def _paired_row(one: Difference, digits: int) -> list[str | Cell]:
    look = LOOK_OF.get(one.verdict, "")
    low, high = (signed(edge, digits) for edge in one.interval)
    return [
        one.name,
        count_cell(one.n),
        number_cell(one.mean, digits),
        number_cell(one.spread, digits),
        Cell(signed(one.difference, digits), one.difference, look=look),
        f"[{low}, {high}]" if low else "not known",
        Cell(p_value(one.p), one.p),
        Cell(p_value(one.p_corrected), one.p_corrected),
        Cell(one.verdict, look=look),
    ]


def cost_table(block: Block) -> Table:
    """What each unit's network costs, and how many times the baseline's that is."""
    names = [
        name
        for what in COSTS
        for name in ("seconds" if what == "seconds" else COST_WORDS[what], "×")
    ]
    rows = [
        [unit, *(cell for what in COSTS for cell in _cost_cells(block, unit, what))]
        for unit in block.runs
    ]
    about = (
        "parameters; FLOPs and saved bytes of one example; seconds of training, the mean over seeds"
    )
    return Table(["unit", *names], rows, f"{block.name}: {about}", "l" + "rr" * len(COSTS))


def _cost_cells(block: Block, unit: str, what: str) -> tuple[Cell, Cell]:
    ratio = block.ratio(unit, what)
    return cost_cell(block.cost(unit, what), what), number_cell(ratio, 2)


def rank_table(found: Findings) -> Table | None:
    """Each unit's rank on every block and the mean of them."""
    if found.ranking is None:
        return None
    ranks = found.ranking.ranks
    here = [block_ranks(block, list(ranks)) for block in found.blocks]
    rows = [
        [unit, *(Cell(number(each[unit]), each[unit]) for each in here), Cell(number(mean), mean)]
        for unit, mean in sorted(ranks.items(), key=lambda pair: pair[1])
    ]
    columns = ["unit", *(block.name for block in found.blocks), "mean rank"]
    return Table(columns, rows, "Rank by mean, 1 is best", "l" + "r" * len(rows[0][1:]))


def block_ranks(block: Block, units: list[str]) -> dict[str, float]:
    """The rank of each unit's mean in the block; equal ones share theirs."""
    from scipy import stats

    sign = -1 if block.metric.higher_is_better else 1
    ranks = stats.rankdata([sign * block.means[unit] for unit in units])
    return dict(zip(units, ranks.tolist(), strict=True))


def rank_words(found: Findings) -> str:
    """What the ranks show, with the critical difference."""
    if found.ranking is None:
        return ""
    ranks, apart = found.ranking.ranks.values(), found.ranking.critical_difference
    most = max(ranks) - min(ranks)
    if not math.isfinite(apart):
        return "Ranks of so few units show nothing."
    head = (
        f"Over these {found.ranking.blocks} columns two mean ranks must be {number(apart)} apart to differ (Nemenyi’s "
        f"critical difference; Friedman’s p {p_value(found.ranking.p)}), and the furthest are {number(most)} apart"
    )
    return (
        f"{head}: ranks alone show no difference between any two units."
        if apart > most
        else f"{head}."
    )


def seeds_table(found: Findings, block: Block) -> Table | None:
    """How many seeds it takes to show a given difference, and the one that was found."""
    effects, unit = EFFECTS[found.metric.factor != 1], " points" if found.metric.factor != 1 else ""
    rows = []
    for one in block.compared:
        gaps = list(block.differences(one.name).values())
        spread = statistics.stdev(gaps) if len(gaps) > 1 else math.nan
        cells = [
            _seeds_cell(effect, spread, len(block.compared))
            for effect in (*effects, abs(one.difference))
        ]
        rows.append([one.name, number_cell(spread, decimals(found)), *cells])
    asked = [f"to show {number(effect)}{unit}" for effect in effects]
    columns = ["unit", "spread of differences", *asked, "to show the one found"]
    about = f"seeds needed, four times in five, with {len(rows)} comparisons"
    return Table(columns, rows, f"{block.name}: {about}", "lrrrr") if rows else None


def _seeds_cell(effect: float, spread: float, comparisons: int) -> Cell:
    if not effect or not math.isfinite(spread):
        return Cell("")
    seeds = needed(effect, spread, comparisons)
    return Cell(f"{seeds:,.0f}", seeds) if math.isfinite(seeds) else Cell("over a million")


def tuned_table(found: Findings) -> Table | None:
    """The learning rate that was chosen for each unit, and the rates it was chosen from."""
    rows = [
        [
            str(one["unit"]),
            str(one["backbone"]),
            Cell(number(one["lr"]), one["lr"]),
            _tried(one),
            Cell("at the edge of what was tried", look="down") if one.get("at_the_edge") else "",
        ]
        for one in found.tuned
    ]
    about = "Learning rates, chosen by the loss on held-out training examples"
    return (
        Table(["unit", "backbone", "chosen", "rate: loss", ""], rows, about, "llrll")
        if rows
        else None
    )


def _tried(one: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{number(each['lr'])}: {number(each['held_loss']) or 'diverged'}" for each in one["tried"]
    )


def number_cell(value: float, digits: int) -> Cell:
    """A number with ``digits`` behind the point; empty if it is not finite."""
    return (
        Cell(f"{value:.{digits}f}".replace("-", MINUS), value) if math.isfinite(value) else Cell("")
    )


def count_cell(value: int) -> Cell:
    """A whole number."""
    return Cell(str(value), value)


def cost_cell(value: float, what: str) -> Cell:
    """A cost: seconds to three digits, anything else in full."""
    if not math.isfinite(value):
        return Cell("not known", look="mute")
    return Cell(number(value) if what == "seconds" else f"{value:,.0f}", value)
