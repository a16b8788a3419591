"""The result of a study as rows of tables and lines of text, for terminals and notebooks."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gatewise.stats import smallest_p
from gatewise.surgery import table

if TYPE_CHECKING:
    from gatewise.stats import Comparison, Difference
    from gatewise.studies.engine.result import Block, StudyResult

COLUMNS = ("unit", "mean ± spread", "n", "difference [95 %]", "p", "verdict", "params", "time")
LEVEL = 0.05
BELOW = "p after Holm's correction; params and time as multiples of the baseline's"


def rows_of(result: "StudyResult", block: "Block") -> list[list[str]]:
    """Return the table of one block in the columns :data:`COLUMNS`, the baseline first.

    Args:
        result: of the study.
        block: backbone, data set and recipe.

    Returns:
        No rows if the baseline has no finished run.
    """
    metric = result.content["metric"]
    if result.baseline not in result.values(block, metric):
        return []
    comparison = result.compare(block[0], metric, data=block[1], recipe=block[2])
    costs = {}
    for cost in result.costs:
        if (cost["backbone"], cost["data"], cost["recipe"]) == block:
            costs[cost["unit"]] = cost
    factor = scale(metric)
    rows = [_baseline_row(comparison, factor)]
    for difference in _best_first(comparison, metric):
        rows.append(_row(difference, factor))
    return [row + _ratios(costs.get(row[0])) for row in rows]


def title_of(result: "StudyResult", block: "Block") -> str:
    """Return the title of a block's table; data set and recipe only if there are several."""
    names = [block[0]]
    for place in (1, 2):
        if len({other[place] for other in result.blocks}) > 1:
            names.append(block[place])
    metric = result.content["metric"]
    words = "test accuracy in %" if metric == "test_accuracy" else metric.replace("_", " ")
    return f"{', '.join(names)}: {words}"


def lines_below(result: "StudyResult") -> Iterator[str]:
    """Yield ranks, seeds needed, chosen learning rates, and what did not finish."""
    metric = result.content["metric"]
    yield BELOW
    yield from _few_seeds(result)
    yield from _ranking(result, metric)
    yield from _seeds(result, metric)
    for tuned in result.content.get("tuned", []):
        edge = " (the largest or smallest tried)" if tuned["at_the_edge"] else ""
        place = f"{tuned['unit']} in {tuned['backbone']}"
        yield f"learning rate chosen for {place}: {tuned['lr']:g}{edge}"
    for record in result.records:
        if record["status"] != "finished":
            yield f"{record['status']}, and left out: {cell_name(record)}: {record['reason']}"


def as_text(result: "StudyResult") -> str:
    """Return all tables and lines in plain text."""
    lines = [result.content["title"] or result.content["name"]]
    for block in result.blocks:
        rows = rows_of(result, block)
        lines += ["", title_of(result, block)]
        if rows:
            lines += table(COLUMNS, rows)
        else:
            lines.append(f"the baseline {result.baseline} has no finished run")
    return "\n".join([*lines, "", *lines_below(result)])


def cell_name(cell: Mapping[str, Any]) -> str:
    """Return the name of a cell for people."""
    if cell.get("name") is not None:
        return f"{cell['name']} ({cell.get('key')})"
    names = [str(cell[label]) for label in ("unit", "backbone") if cell.get(label) is not None]
    return f"{' in '.join(names)}, seed {cell.get('seed')} ({cell.get('key')})"


def scale(metric: str) -> float:
    """Return the factor with which a metric is shown; accuracies are in per cent."""
    return 100.0 if metric == "test_accuracy" else 1.0


def _baseline_row(comparison: "Comparison", factor: float) -> list[str]:
    """Return the row of the baseline."""
    mean = _with_spread(comparison.baseline_mean, comparison.baseline_spread, factor)
    return [comparison.baseline, mean, str(comparison.n), "", "", "baseline"]


def _row(difference: "Difference", factor: float) -> list[str]:
    """Return the row of one unit."""
    low, high = (_number(bound * factor, sign=True) for bound in difference.interval)
    gap = _number(difference.difference * factor, sign=True)
    if low != "-":
        gap += f" [{low}, {high}]"
    mean = _with_spread(difference.mean, difference.spread, factor)
    p = f"{difference.p_corrected:.3f}"
    return [difference.name, mean, str(difference.n), gap, p, difference.verdict]


def _best_first(comparison: "Comparison", metric: str) -> list["Difference"]:
    """Return the units in the order of their results."""
    higher = metric == "test_accuracy"
    return sorted(comparison.differences, key=lambda row: row.difference, reverse=higher)


def _with_spread(mean: float, spread: float, factor: float) -> str:
    """Return mean and standard deviation."""
    return f"{_number(mean * factor)} ± {_number(spread * factor)}"


def _ratios(cost: Mapping[str, Any] | None) -> list[str]:
    """Return parameters and time as multiples of the baseline's."""
    ratios = (cost or {}).get("ratios", {})
    texts = []
    for name in ("parameters", "seconds"):
        texts.append(f"{ratios[name]:.2f}x" if ratios.get(name) else "-")
    return texts


def _few_seeds(result: "StudyResult") -> Iterator[str]:
    """Warn if no difference can be shown with so few seeds."""
    seeds = len({cell["seed"] for cell in result.cells})
    others = len(result.units) - 1
    if others and smallest_p(seeds) * others > LEVEL:
        enough = next(n for n in range(2, 100) if smallest_p(n) * others <= LEVEL)
        least = min(1.0, smallest_p(seeds) * others)
        yield (
            f"{seeds} seeds are too few to show a difference: p cannot be below {least:g}; "
            f"use {enough} or more"
        )


def _ranking(result: "StudyResult", metric: str) -> Iterator[str]:
    """Yield mean ranks and the critical difference, if there are several blocks."""
    ranking = result.ranking(metric)
    if ranking is None or ranking.blocks < 2:
        return
    ordered = sorted(ranking.ranks.items(), key=lambda item: item[1])
    ranks = ", ".join(f"{name} {rank:.1f}" for name, rank in ordered)
    yield f"\nmean rank over {ranking.blocks} backbones: {ranks}"
    if math.isfinite(ranking.critical_difference):
        yield (
            f"ranks closer than {ranking.critical_difference:.1f} do not differ significantly "
            f"(Nemenyi; p {ranking.p:.2f})"
        )


def _seeds(result: "StudyResult", metric: str) -> Iterator[str]:
    """Yield how many seeds would show a difference of 0.01."""
    effect = 0.01
    for block in result.blocks:
        needed = []
        for unit, seeds in result.seeds_for(block, effect, metric).items():
            if seeds:
                needed.append(f"{unit} {seeds}")
        if needed:
            size = f"{effect * scale(metric):g}"
            yield f"seeds to show a difference of {size} in {block[0]}: {', '.join(needed)}"


def _number(value: float, *, sign: bool = False) -> str:
    """Return a number with two digits; "-" if it is not finite."""
    if not math.isfinite(value):
        return "-"
    return f"{value:+.2f}" if sign else f"{value:.2f}"
