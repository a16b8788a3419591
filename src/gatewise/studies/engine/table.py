"""The result of a study as rows of tables and lines of text, for terminals and notebooks."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gatewise.studies.answer import (
    block_names,
    level_words,
    plain_text,
    rate_blocks,
    rate_curves,
    seeds_words,
    undecided_by_noise,
    verdict_words,
)
from gatewise.surgery import table
from gatewise.words import joined, p_value, rate

if TYPE_CHECKING:
    from gatewise.stats import Comparison, Difference
    from gatewise.studies.engine.result import Block, StudyResult

COLUMNS = (
    "unit",
    "mean ± spread",
    "n",
    "difference [interval]",
    "p",
    "verdict",
    "params",
    "FLOPs",
    "time",
)
MOST_LINES = 20  # lines of one kind below the tables


def rows_of(result: "StudyResult", block: "Block") -> list[list[str]]:
    """Return the table of one block in the columns :data:`COLUMNS`, the baseline first.

    Args:
        result: of the study.
        block: backbone, data set and recipe.

    Returns:
        No rows if there is nothing to compare.
    """
    comparison = result.compare_block(block)
    if comparison is None:
        return []
    costs = result.block_costs[block]
    rows = [_baseline_row(result, comparison)]
    for difference in best_first(comparison):
        rows.append(_row(result, difference))
    return [row + _ratios(costs.get(row[0])) for row in rows]


def title_of(result: "StudyResult", block: "Block") -> str:
    """Return the title of a block's table: what tells it from the other blocks.

    Args:
        result: of the study.
        block: backbone, data set and recipe.
    """
    title = f"{block_names(result)[block]}: {result.display.label}"
    comparison = result.compare_block(block)
    return f"{title}; intervals {level_words(comparison)}" if comparison else title


def lines_below(result: "StudyResult") -> Iterator[str]:
    """Yield what stands below the tables: seeds needed, ranks, learning rates, problems."""
    yield (
        "p is corrected for the units of a table; params, FLOPs and time are relative to the "
        "baseline"
    )
    yield from _some(list(_undecided_lines(result)))
    yield from _ranking(result)
    yield from _some(list(_rate_lines(result)))
    yield from _some(list(_run_lines(result)))


def as_text(result: "StudyResult") -> str:
    """Return the answer, all tables and the lines below them in plain text.

    Args:
        result: of the study.
    """
    lines = [result.content.get("title") or result.content["name"], ""]
    lines += [plain_text(line) for line in (*result.answer, *result.further)]
    for block in result.blocks:
        rows = rows_of(result, block)
        lines += ["", title_of(result, block)]
        if rows:
            lines += table(COLUMNS, rows)
        else:
            lines.append(NOTHING.format(result.baseline))
    return "\n".join([*lines, "", *lines_below(result)])


NOTHING = "nothing to compare: {} or all other units have no finished run"


def cell_name(cell: Mapping[str, Any]) -> str:
    """Return the name of a cell for people.

    Args:
        cell: or its record.
    """
    if cell.get("name") is not None:
        return f"{cell['name']} ({cell.get('key')})"
    names = [str(cell[label]) for label in ("unit", "backbone") if cell.get(label) is not None]
    return f"{' in '.join(names)}, seed {cell.get('seed')} ({cell.get('key')})"


def best_first(comparison: "Comparison") -> list["Difference"]:
    """Return the units in the order of their differences; those without one come last.

    Args:
        comparison: of one block.
    """
    sign = -1.0 if comparison.higher_is_better else 1.0

    def order(difference: "Difference") -> tuple[bool, float]:
        """Sort by the difference; NaN has no order of its own."""
        known = math.isfinite(difference.difference)
        return not known, sign * difference.difference if known else 0.0

    return sorted(comparison.differences, key=order)


def _baseline_row(result: "StudyResult", comparison: "Comparison") -> list[str]:
    """Return the row of the baseline."""
    mean = _with_spread(result, comparison.baseline_mean, comparison.baseline_spread)
    runs = _count(comparison.n, comparison.baseline_diverged)
    return [comparison.baseline, mean, runs, "", "", "baseline"]


def _row(result: "StudyResult", difference: "Difference") -> list[str]:
    """Return the row of one unit."""
    display = result.display
    size = display.difference(difference.difference)
    ends = display.interval(difference.interval)
    return [
        difference.name,
        _with_spread(result, difference.mean, difference.spread),
        _count(difference.n, difference.diverged),
        f"{size} {ends or '(no interval)'}",
        p_value(difference.p_corrected) if ends else "-",
        verdict_words(result, difference),
    ]


def _count(runs: int, diverged: int) -> str:
    """Return the number of runs, with those that diverged."""
    return f"{runs} ({diverged} diverged)" if diverged else str(runs)


def _with_spread(result: "StudyResult", mean: float, spread: float) -> str:
    """Return mean and standard deviation."""
    return f"{result.display.value(mean)} ± {result.display.value(spread)}"


def _ratios(cost: Mapping[str, Any] | None) -> list[str]:
    """Return parameters, operations and time as multiples of the baseline's."""
    ratios = (cost or {}).get("ratios", {})
    texts = []
    for name in ("parameters", "flops", "seconds"):
        texts.append(f"{ratios[name]:.2f}x" if ratios.get(name) else "-")
    return texts


def _some(lines: list[str]) -> Iterator[str]:
    """Yield the first lines of a kind, and how many were left out."""
    yield from lines[:MOST_LINES]
    if len(lines) > MOST_LINES:
        yield f"and {len(lines) - MOST_LINES:,} more lines: see the page or --json"


def _undecided_lines(result: "StudyResult") -> Iterator[str]:
    """Yield for each block what would have been found, and the seeds that would find half."""
    names = block_names(result)
    for block in result.blocks:
        comparison = result.compare_block(block)
        sizes = []
        seeds = set()
        for difference in best_first(comparison) if comparison else ():
            if undecided_by_noise(difference):
                size = result.display.size(difference.detectable or math.nan)
                sizes.append(f"{difference.name} {size.removesuffix(result.display.unit)}")
                seeds.add(seeds_words(difference))
            if difference.note:
                yield f"{difference.name} in {names[block]}: {difference.note}"
        if sizes:
            wanted = "half of that" if result.margin is None else "the margin"
            needed = joined(sorted(seeds - {""}))
            yield (
                f"{names[block]}: would have been found four times in five: "
                f"{joined(sizes, most=MOST_LINES)}{result.display.unit}; "
                f"seeds for {wanted}: {needed}"
            )


def _ranking(result: "StudyResult") -> Iterator[str]:
    """Yield mean ranks and the critical difference, from ten data sets."""
    ranking = result.ranking()
    if ranking is None:
        return
    ordered = sorted(ranking.ranks.items(), key=lambda item: item[1])
    ranks = ", ".join(f"{name} {mean_rank:.1f}" for name, mean_rank in ordered)
    yield f"\nmean rank over {ranking.blocks} data sets: {ranks}"
    if math.isfinite(ranking.critical_difference):
        yield (
            f"ranks closer than {ranking.critical_difference:.1f} do not differ significantly "
            f"(Nemenyi; p {ranking.p:.2f})"
        )


def _rate_lines(result: "StudyResult") -> Iterator[str]:
    """Yield the learning rate of each unit, if there were several."""
    near = "1 point" if result.display.in_points else "1 %"
    for block, more in rate_blocks(result).items():
        for curve in rate_curves(result, block, more):
            parts = []
            if curve.chosen is not None:
                parts.append(f"learning rate {rate(curve.chosen)}")
            if curve.best is not None and curve.best != curve.chosen:
                best = "best held-out mean at" if curve.held_out else "best learning rate"
                parts.append(f"{best} {rate(curve.best)}")
            if curve.good_words:
                parts.append(f"within {near} of the best: {curve.good_words}")
            yield f"{curve.unit} in {block[0]}: {'; '.join(parts) or 'no learning rate'}"


def _run_lines(result: "StudyResult") -> Iterator[str]:
    """Yield the runs without a result, and damaged records."""
    for run in result.runs:
        if run.status in ("diverged", "failed"):
            counted = "counted as a result" if run.status == "diverged" else "and left out"
            reason = run.record.get("reason")
            yield f"{run.status}, {counted}: {cell_name(run.record)}: {reason}"
    for problem in result.damaged:
        yield f"damaged record, set aside: {problem['key']}: {problem['problem']}"
