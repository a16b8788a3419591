"""What a study shows, as the cells of tables and lines of text.

For terminals and notebooks alike.
"""

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
    """The table of one block in the columns :data:`COLUMNS`, the baseline first.

    None if it has no finished cell.
    """
    metric = result.content["metric"]
    if result.baseline not in result.values(block, metric):
        return []
    compared = result.compare(block[0], metric, data=block[1], recipe=block[2])
    costs = {
        each["unit"]: each
        for each in result.costs
        if (each["backbone"], each["data"], each["recipe"]) == block
    }
    rows = [
        _baseline(compared, scale(metric)),
        *(_row(each, scale(metric)) for each in _best_first(compared, metric)),
    ]
    return [row + _ratios(costs.get(row[0])) for row in rows]


def title_of(result: "StudyResult", block: "Block") -> str:
    """What the table of a block is about."""
    several = [len({each[place] for each in result.blocks}) > 1 for place in range(3)]
    name = ", ".join(name for place, name in enumerate(block) if place == 0 or several[place])
    metric = result.content["metric"]
    return (
        f"{name}: {'test accuracy in %' if metric == 'test_accuracy' else metric.replace('_', ' ')}"
    )


def lines_below(result: "StudyResult") -> Iterator[str]:
    """Ranks, seeds needed, rates chosen, and what did not finish."""
    metric = result.content["metric"]
    yield BELOW
    yield from _few_seeds(result)
    yield from _ranking(result, metric)
    yield from _seeds(result, metric)
    for each in result.content.get("tuned", []):
        edge = " (the largest or smallest tried)" if each["at_the_edge"] else ""
        yield f"learning rate chosen for {each['unit']} in {each['backbone']}: {each['lr']:g}{edge}"
    for record in result.records:
        if record["status"] != "finished":
            yield f"{record['status']}, and left out: {cell_name(record)}: {record['reason']}"


def as_text(result: "StudyResult") -> str:
    """The whole of it, in plain text."""
    lines = [result.content["title"] or result.content["name"]]
    for block in result.blocks:
        rows = rows_of(result, block)
        lines += ["", title_of(result, block)]
        lines += (
            table(COLUMNS, rows)
            if rows
            else [f"the baseline {result.baseline} has no finished cell"]
        )
    return "\n".join([*lines, "", *lines_below(result)])


def cell_name(cell: Mapping[str, Any]) -> str:
    """What people call a cell."""
    names = (str(cell.get(name)) for name in ("unit", "backbone") if cell.get(name) is not None)
    return f"{' in '.join(names)}, seed {cell.get('seed')} ({cell.get('key')})"


def scale(metric: str) -> float:
    """Accuracies are shown in per cent."""
    return 100.0 if metric == "test_accuracy" else 1.0


def _baseline(compared: "Comparison", scale: float) -> list[str]:
    mean = _with_spread(compared.baseline_mean, compared.baseline_spread, scale)
    return [compared.baseline, mean, str(compared.n), "", "", "baseline"]


def _row(each: "Difference", scale: float) -> list[str]:
    low, high = (_number(bound * scale, sign=True) for bound in each.interval)
    difference = _number(each.difference * scale, sign=True) + (
        f" [{low}, {high}]" if low != "-" else ""
    )
    mean = _with_spread(each.mean, each.spread, scale)
    return [each.name, mean, str(each.n), difference, f"{each.p_corrected:.3f}", each.verdict]


def _best_first(compared: "Comparison", metric: str) -> list["Difference"]:
    return sorted(
        compared.differences, key=lambda one: one.difference, reverse=metric == "test_accuracy"
    )


def _with_spread(mean: float, spread: float, scale: float) -> str:
    return f"{_number(mean * scale)} ± {_number(spread * scale)}"


def _ratios(cost: Mapping[str, Any] | None) -> list[str]:
    ratios = (cost or {}).get("ratios", {})
    return [
        f"{ratios[name]:.2f}x" if ratios.get(name) else "-" for name in ("parameters", "seconds")
    ]


def _few_seeds(result: "StudyResult") -> Iterator[str]:
    """What so few seeds can never show is said, so that nobody takes it for a finding."""
    seeds, others = len({cell["seed"] for cell in result.cells}), len(result.units) - 1
    if others and smallest_p(seeds) * others > LEVEL:
        enough = next(n for n in range(2, 100) if smallest_p(n) * others <= LEVEL)
        least = min(1.0, smallest_p(seeds) * others)
        yield f"with {seeds} seeds no difference can be shown, as p is never below {least:g}: it takes {enough}"


def _ranking(result: "StudyResult", metric: str) -> Iterator[str]:
    ranking = result.ranking(metric)
    if ranking is None or ranking.blocks < 2:
        return
    ordered = sorted(ranking.ranks.items(), key=lambda each: each[1])
    yield f"\nmean rank over {ranking.blocks} backbones: " + ", ".join(
        f"{name} {rank:.1f}" for name, rank in ordered
    )
    if math.isfinite(ranking.critical_difference):
        yield f"ranks nearer than {ranking.critical_difference:.1f} are not told apart (Nemenyi; p {ranking.p:.2f})"


def _seeds(result: "StudyResult", metric: str) -> Iterator[str]:
    effect = 0.01
    for block in result.blocks:
        needed = {
            unit: seeds for unit, seeds in result.seeds_for(block, effect, metric).items() if seeds
        }
        if needed:
            shown = ", ".join(f"{unit} {seeds}" for unit, seeds in needed.items())
            yield f"seeds to show a difference of {effect * scale(metric):g} in {block[0]}: {shown}"


def _number(value: float, *, sign: bool = False) -> str:
    return "-" if not math.isfinite(value) else f"{value:+.2f}" if sign else f"{value:.2f}"
