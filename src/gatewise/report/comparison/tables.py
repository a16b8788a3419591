"""The tables of a comparison: paired differences, costs, ranks and seeds needed."""

import math
import statistics
from collections.abc import Mapping
from typing import Any

from gatewise.report.charts import Cell, Table
from gatewise.report.comparison.answer import COST_WORDS, LOOK_OF, decimals, needed
from gatewise.report.comparison.findings import COSTS, Block, Findings
from gatewise.stats import Difference
from gatewise.words import MINUS, number, p_value, plural, signed

POINT_EFFECTS = (1.0, 0.5)  # differences a reader may want to show, in percentage points
LOSS_EFFECTS = (0.1, 0.01)
PAIRED = ("unit", "n", "mean", "spread", "difference", "95 %", "p", "p (Holm)", "verdict")
Cells = list[str | Cell]


def paired_table(findings: Findings, block: Block) -> Table | None:
    """Return mean, spread and n of every unit, and its difference from the baseline.

    None if nothing was compared.
    """
    comparison = block.comparison
    if comparison is None:
        return None
    digits = decimals(findings)
    base: Cells = [
        comparison.baseline,
        count_cell(comparison.n),
        number_cell(comparison.baseline_mean, digits),
        number_cell(comparison.baseline_spread, digits),
        "",
        "",
        "",
        "",
        Cell("the baseline", look="mute"),
    ]
    rows = [base, *(_paired_row(difference, digits) for difference in block.compared)]
    return Table(PAIRED, rows, f"{block.name}: {findings.metric.label}", "lrrrrrrrl")


def _paired_row(difference: Difference, digits: int) -> Cells:
    """One unit: its mean and spread, its difference, the tests and the verdict."""
    look = LOOK_OF.get(difference.verdict, "")
    low, high = (signed(edge, digits) for edge in difference.interval)
    return [
        difference.name,
        count_cell(difference.n),
        number_cell(difference.mean, digits),
        number_cell(difference.spread, digits),
        Cell(signed(difference.difference, digits), difference.difference, look=look),
        f"[{low}, {high}]" if low else "not known",
        Cell(p_value(difference.p), difference.p),
        Cell(p_value(difference.p_corrected), difference.p_corrected),
        Cell(difference.verdict, look=look),
    ]


def cost_table(block: Block) -> Table:
    """Return what the network of each unit costs, in total and relative to the baseline."""
    columns = ["unit"]
    for cost in COSTS:
        columns += ["seconds" if cost == "seconds" else COST_WORDS[cost], "×"]
    rows = []
    for unit in block.runs:
        row: Cells = [unit]
        for cost in COSTS:
            row += [
                cost_cell(block.cost(unit, cost), cost),
                number_cell(block.ratio(unit, cost), 2),
            ]
        rows.append(row)
    about = "parameters; FLOPs and saved bytes per example; mean seconds of training over seeds"
    return Table(columns, rows, f"{block.name}: {about}", "l" + "rr" * len(COSTS))


def rank_table(findings: Findings) -> Table | None:
    """Return the rank of each unit on every block, and its mean rank; None for one block."""
    if findings.ranking is None:
        return None
    ranks = findings.ranking.ranks
    by_block = [block_ranks(block, list(ranks)) for block in findings.blocks]
    rows = []
    for unit, mean in sorted(ranks.items(), key=lambda pair: pair[1]):
        values = [*(here[unit] for here in by_block), mean]
        rows.append([unit, *(Cell(number(value), value) for value in values)])
    columns = ["unit", *(block.name for block in findings.blocks), "mean rank"]
    return Table(columns, rows, "Rank by mean, 1 is best", "l" + "r" * (len(columns) - 1))


def block_ranks(block: Block, units: list[str]) -> dict[str, float]:
    """Return the rank of each unit's mean in the block. Equal means share a rank."""
    from scipy import stats

    sign = -1 if block.metric.higher_is_better else 1
    ranks = stats.rankdata([sign * block.means[unit] for unit in units])
    return dict(zip(units, ranks.tolist(), strict=True))


def rank_words(findings: Findings) -> str:
    """Return what the ranks show, with the critical difference."""
    if findings.ranking is None:
        return ""
    critical = findings.ranking.critical_difference
    if not math.isfinite(critical):
        return "There are too few units for a test of their ranks."
    ranks = findings.ranking.ranks.values()
    largest = max(ranks) - min(ranks)
    words = (
        f"Over these {findings.ranking.blocks} columns two mean ranks must be {number(critical)} "
        f"apart to differ (Nemenyi’s critical difference; "
        f"Friedman’s p {p_value(findings.ranking.p)}). "
        f"The largest distance is {number(largest)}."
    )
    if critical > largest:
        words += " The ranks alone show no difference between any two units."
    return words


def seeds_table(findings: Findings, block: Block) -> Table | None:
    """Return how many seeds show a given difference, and the measured one."""
    in_points = findings.metric.factor != 1
    effects = POINT_EFFECTS if in_points else LOSS_EFFECTS
    unit = " points" if in_points else ""
    comparisons = len(block.compared)
    rows = []
    for difference in block.compared:
        gaps = list(block.differences(difference.name).values())
        spread = statistics.stdev(gaps) if len(gaps) > 1 else math.nan
        row: Cells = [difference.name, number_cell(spread, decimals(findings))]
        for effect in (*effects, abs(difference.difference)):
            row.append(_seeds_cell(effect, spread, comparisons))
        rows.append(row)
    if not rows:
        return None
    asked = [f"to show {number(effect)}{unit}" for effect in effects]
    columns = ["unit", "spread of differences", *asked, "to show the measured one"]
    about = f"seeds needed to succeed four times in five, with {plural(comparisons, 'comparison')}"
    return Table(columns, rows, f"{block.name}: {about}", "lrrrr")


def _seeds_cell(effect: float, spread: float, comparisons: int) -> Cell:
    """The seeds that show an effect; empty if the spread is not known."""
    if not effect or not math.isfinite(spread):
        return Cell("")
    seeds = needed(effect, spread, comparisons)
    return Cell(f"{seeds:,.0f}", seeds) if math.isfinite(seeds) else Cell("over a million")


def tuned_table(findings: Findings) -> Table | None:
    """Return the learning rate chosen for each unit, and the rates it was chosen from."""
    rows = []
    for choice in findings.tuned:
        edge = choice.get("at_the_edge")
        rows.append(
            [
                str(choice["unit"]),
                str(choice["backbone"]),
                Cell(number(choice["lr"]), choice["lr"]),
                _tried(choice),
                Cell("at the edge of what was tried", look="down") if edge else "",
            ]
        )
    if not rows:
        return None
    about = "Learning rates, chosen by the loss on held-out training examples"
    return Table(["unit", "backbone", "chosen", "rate: loss", ""], rows, about, "llrll")


def _tried(choice: Mapping[str, Any]) -> str:
    """The learning rates that were tried, each with its loss."""
    parts = []
    for trial in choice["tried"]:
        parts.append(f"{number(trial['lr'])}: {number(trial['held_loss']) or 'diverged'}")
    return ", ".join(parts)


def number_cell(value: float, digits: int) -> Cell:
    """Return a number with ``digits`` decimals; an empty cell if it is not finite."""
    if not math.isfinite(value):
        return Cell("")
    return Cell(f"{value:.{digits}f}".replace("-", MINUS), value)


def count_cell(value: int) -> Cell:
    """Return a whole number."""
    return Cell(str(value), value)


def cost_cell(value: float, what: str) -> Cell:
    """Return a cost: seconds with three digits, anything else in full."""
    if not math.isfinite(value):
        return Cell("not known", look="mute")
    return Cell(number(value) if what == "seconds" else f"{value:,.0f}", value)
