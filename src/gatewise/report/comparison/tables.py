"""The tables of a comparison: paired differences, costs, ranks and seeds needed."""

import math

from gatewise.report.charts import Cell, Table
from gatewise.report.comparison.answer import look_of
from gatewise.report.comparison.findings import COSTS, Block, Findings
from gatewise.report.comparison.limits import MOST_ROWS, both_ends, shown_words
from gatewise.stats import Difference
from gatewise.studies import (
    COST_WORDS,
    best_first,
    level_words,
    new_examples_state,
    seeds_words,
    undecided_by_noise,
    verdict_words,
)
from gatewise.words import MINUS, number, p_value, rate

Cells = list[str | Cell]
# The columns after the verdict are only in a copy as CSV.
SHOWN = (
    "unit",
    "rate",
    "n",
    "diverged",
    "mean",
    "spread",
    "difference",
    "interval",
    "p (corrected)",
    "verdict",
    "on new examples",
)
# Whether a verdict also holds on new examples, in a word.
NEW_EXAMPLES = {"": "", "also": "the same", "undecided": "undecided", "not known": "not known"}
CSV_ONLY = (
    "interval low",
    "interval high",
    "level of the interval",
    "low end at 95 % alone (not corrected)",
    "high end at 95 % alone (not corrected)",
    "p (not corrected)",
    "p by sign flips",
    "method",
)
ALIGN = "lrrrrrrrrll" + "rrrrrrrl"


def paired_table(findings: Findings, block: Block) -> Table | None:
    """Return mean, spread and n of every unit, and its difference from the baseline.

    None if nothing was compared.

    Args:
        findings: The comparison.
        block: One of its blocks.
    """
    comparison = block.comparison
    if comparison is None:
        return None
    base: Cells = [
        comparison.baseline,
        _rate_cell(findings, block, comparison.baseline),
        count_cell(comparison.n),
        count_cell(comparison.baseline_diverged),
        _value_cell(findings, comparison.baseline_mean),
        _value_cell(findings, comparison.baseline_spread),
        *[""] * 3,
        Cell("the baseline", look="mute"),
        *[""] * (1 + len(CSV_ONLY)),
    ]
    ordered = best_first(comparison)
    shown = both_ends(ordered, MOST_ROWS)
    rows = [base, *(_paired_row(findings, block, difference) for difference in shown)]
    left_out = shown_words(len(shown), len(ordered), "units")
    about = f"{findings.display.label}; intervals {level_words(comparison)}{left_out}"
    columns = [*SHOWN, *CSV_ONLY]
    return Table(columns, rows, f"{block.name}: {about}", ALIGN, csv_only=len(CSV_ONLY))


def _paired_row(findings: Findings, block: Block, difference: Difference) -> Cells:
    """One unit: its mean and spread, its difference, the interval, p and the verdict."""
    display = findings.display
    look = look_of(difference.interval, findings)
    ends = display.interval(difference.interval)
    size = display.difference(difference.difference)
    low, high = difference.interval
    alone_low, alone_high = difference.interval_alone
    return [
        difference.name,
        _rate_cell(findings, block, difference.name),
        count_cell(difference.n),
        count_cell(difference.diverged),
        _value_cell(findings, difference.mean),
        _value_cell(findings, difference.spread),
        Cell(size, _full(display.factor * difference.difference), look=look),
        ends or Cell("none", look="mute"),
        Cell(p_value(difference.p_corrected), _full(difference.p_corrected)) if ends else "",
        Cell(verdict_words(findings.result, difference), look=look),
        NEW_EXAMPLES[new_examples_state(difference)],
        _number(display.factor * low),
        _number(display.factor * high),
        _number(difference.confidence),
        _number(display.factor * alone_low),
        _number(display.factor * alone_high),
        _number(difference.p),
        _number(difference.p_exact),
        difference.method,
    ]


def _rate_cell(findings: Findings, block: Block, unit: str) -> str | Cell:
    """The learning rate of a unit's final runs; empty if it is not known."""
    chosen = findings.result.chosen_rates(block.place).get(unit)
    return rate_cell(chosen)


def rate_cell(value: float | None) -> str | Cell:
    """Return a learning rate; empty if it is not known.

    Args:
        value: The rate.
    """
    # A line can break at a hyphen, and not at a minus sign.
    if value is None:
        return ""
    return Cell(rate(value).replace("-", MINUS), value)


def _value_cell(findings: Findings, value: float) -> Cell:
    """A recorded value in the unit of display; empty if it is not finite."""
    return number_cell(findings.display.factor * value, findings.display.digits)


def _full(value: float) -> float | None:
    """A number for a copy as CSV; None if it is not finite."""
    return value if math.isfinite(value) else None


def _number(value: float) -> Cell:
    """A number in a column that only CSV has; empty if it is not finite."""
    if math.isfinite(value):
        return Cell(repr(value), value)
    return Cell("")


def cost_table(block: Block) -> Table:
    """Return what the network of each unit costs, in total and relative to the baseline.

    Args:
        block: The runs.
    """
    columns = ["unit"]
    for cost in COSTS:
        columns += ["seconds" if cost == "seconds" else COST_WORDS[cost], "×"]
    rows = []
    units = both_ends(list(block.runs), MOST_ROWS)
    for unit in units:
        row: Cells = [unit]
        for cost in COSTS:
            row += [
                cost_cell(block.cost(unit, cost), cost),
                number_cell(block.ratio(unit, cost), 2),
            ]
        rows.append(row)
    about = "parameters; FLOPs and saved bytes per example; seconds of the fastest training run"
    about += shown_words(len(units), len(block.runs), "units")
    return Table(columns, rows, f"{block.name}: {about}", "l" + "rr" * len(COSTS))


def rank_table(findings: Findings) -> Table | None:
    """Return the mean rank of each unit over data sets; None for fewer than ten data sets.

    Args:
        findings: The comparison.
    """
    ranking = findings.result.ranking()
    if ranking is None:
        return None
    rows = []
    for unit, mean in sorted(ranking.ranks.items(), key=lambda pair: pair[1]):
        rows.append([unit, Cell(number(mean), mean)])
    about = f"Mean rank over {ranking.blocks} data sets, 1 is best"
    return Table(["unit", "mean rank"], rows, about, "lr")


def rank_words(findings: Findings) -> str:
    """Return what the ranks show, with the critical difference.

    Args:
        findings: The comparison.
    """
    ranking = findings.result.ranking()
    if ranking is None:
        return ""
    critical = ranking.critical_difference
    if not math.isfinite(critical):
        return "There are too few units for a test of their ranks."
    largest = max(ranking.ranks.values()) - min(ranking.ranks.values())
    words = (
        f"Over these {ranking.blocks} data sets two mean ranks must be {number(critical)} "
        f"apart to differ (Nemenyi’s critical difference; "
        f"Friedman’s p {p_value(ranking.p)}). "
        f"The largest distance is {number(largest)}."
    )
    if critical > largest:
        words += " The ranks alone show no two units to differ."
    return words


def undecided_table(findings: Findings, block: Block) -> Table | None:
    """Return for each undecided unit what would have been found, and the seeds needed.

    Args:
        findings: The comparison.
        block: One of its blocks.
    """
    display = findings.display
    rows = []
    for difference in block.compared:
        if undecided_by_noise(difference) and difference.detectable is not None:
            wanted = findings.result.margin
            if wanted is None:
                wanted = difference.detectable / 2
            row: Cells = [
                difference.name,
                Cell(display.size(difference.detectable), display.factor * difference.detectable),
                Cell(display.size(wanted), display.factor * wanted),
                seeds_words(difference) or "not known",
            ]
            rows.append(row)
    if not rows:
        return None
    asked = "half of that" if findings.result.margin is None else "the margin"
    columns = ["unit", "found four times in five", asked, f"seeds to find {asked}"]
    about = (
        "undecided units. The first number of seeds is by the measured spread, which is itself "
        "uncertain; the number to be safe is by its upper bound"
    )
    return Table(columns, rows[:MOST_ROWS], f"{block.name}: {about}", "lrrr")


def left_out_table(findings: Findings) -> Table | None:
    """Return the units that were not run, with the reason; None if there are none.

    Args:
        findings: The comparison.
    """
    rows = []
    for entry in findings.result.content.get("left_out") or ():
        where = " · ".join(str(entry[part]) for part in ("backbone", "data") if entry.get(part))
        rows.append([str(entry.get("unit")), where, str(entry.get("reason"))])
    if rows:
        return Table(["unit", "where", "reason"], rows, "Units left out", "lll")
    return None


def number_cell(value: float, digits: int) -> Cell:
    """Return a number with ``digits`` decimals; an empty cell if it is not finite.

    Args:
        value: The number.
        digits: After the decimal point.
    """
    if not math.isfinite(value):
        return Cell("")
    return Cell(f"{value:.{digits}f}".replace("-", MINUS), value)


def count_cell(value: int) -> Cell:
    """Return a whole number.

    Args:
        value: The number.
    """
    return Cell(str(value), value)


def cost_cell(value: float, what: str) -> Cell:
    """Return a cost: seconds with three digits, anything else in full.

    Args:
        value: The cost.
        what: Its name.
    """
    if not math.isfinite(value):
        return Cell("not known", look="mute")
    return Cell(number(value) if what == "seconds" else f"{value:,.0f}", value)
