"""The answer of a comparison in a few sentences: what differs from the baseline, by how much, at what cost, how sure."""

import math
import statistics
from collections.abc import Iterator, Sequence
from itertools import combinations

from gatewise.errors import ArgumentError
from gatewise.report.charts import Cell, Words
from gatewise.report.findings import Block, Findings
from gatewise.report.words import number, signed
from gatewise.studies.statistics import Difference, seeds_needed

NOTABLE = 1.05  # a cost that differs by less is not said beside the difference
COST_WORDS = {"parameters": "parameters", "flops": "FLOPs", "saved_bytes": "saved bytes", "seconds": "time"}
VERDICTS = ("better", "worse", "no difference shown", "too few seeds to show any")
MOST_REVERSALS = 6


def answer(found: Findings) -> list[Words]:
    """One line a block, then what holds on some blocks only, then how sure all this is."""
    lines: list[Words] = [line for block in found.blocks for line in _block_lines(found, block)]
    return [*lines, *_between_blocks(found), *_missing(found), *_sureness(found)]


def decimals(found: Findings) -> int:
    """Digits behind the point: two for points of a hundred, four for anything else."""
    return 2 if found.metric.factor != 1 else 4


def _block_lines(found: Findings, block: Block) -> Iterator[Words]:
    comparison = block.comparison
    where = f"{block.name}: "
    if comparison is None:
        yield [where, f"nothing to compare with {found.baseline} yet."]
        return
    groups = {verdict: [one for one in comparison.differences if one.verdict == verdict] for verdict in VERDICTS}
    parts: list[str | Cell] = [Cell(where, look="name")]
    for verdict, look, words in (("better", "up", "better than"), ("worse", "down", "worse than")):
        if ranked := sorted(groups[verdict], key=lambda one: -abs(one.difference)):
            parts += [
                *_listed(found, block, ranked, look),
                f" {'is' if len(ranked) == 1 else 'are'} {words} {found.baseline}. ",
            ]
    if flat := groups["no difference shown"]:
        parts.append(f"No difference shown: {', '.join(one.name for one in flat)}. ")
    if few := groups["too few seeds to show any"]:
        parts.append(f"Too few seeds to show any difference: {', '.join(one.name for one in few)}. ")
    yield parts


def _listed(found: Findings, block: Block, ranked: Sequence[Difference], look: str) -> Iterator[str | Cell]:
    for i, one in enumerate(ranked):
        yield ", " if i else ""
        yield Cell(f"{one.name} {signed(one.difference, decimals(found))}", look=look)  # type: ignore[arg-type]
        yield _cost_words(block, one.name)


def _cost_words(block: Block, unit: str) -> str:
    """The costs that are not the baseline's, in brackets."""
    found = [(block.ratio(unit, what), name) for what, name in COST_WORDS.items() if what != "saved_bytes"]
    notable = [f"{number(r, 3)}× {name}" for r, name in found if r > NOTABLE or r < 1 / NOTABLE]
    return f" ({', '.join(notable)})" if notable else ""


def _between_blocks(found: Findings) -> Iterator[Words]:
    if len(found.blocks) < 2:
        return
    for unit in found.units[1:]:
        verdicts = {block.name: _verdict(block, unit) for block in found.blocks}
        better = [name for name, verdict in verdicts.items() if verdict == "better"]
        worse = [name for name, verdict in verdicts.items() if verdict == "worse"]
        if better and worse:
            yield [
                Cell("Reversed: ", look="name"),
                f"{unit} is better than {found.baseline} on {', '.join(better)} and worse on {', '.join(worse)}.",
            ]
    pairs = reversed_pairs(found)
    if pairs:
        shown = "; ".join(
            f"{a} is ahead of {b} on {here} and behind it on {there}" for a, b, here, there in pairs[:MOST_REVERSALS]
        )
        more = f"; and {len(pairs) - MOST_REVERSALS} more pairs" if len(pairs) > MOST_REVERSALS else ""
        yield [Cell("The order depends on the backbone: ", look="name"), f"{shown}{more} (intervals apart both times)."]


def reversed_pairs(found: Findings) -> list[tuple[str, str, str, str]]:
    """Units (a, b) and blocks (here, there): a's interval lies above b's here and below it there."""
    pairs = []
    for a, b in combinations(found.units[1:], 2):
        for one, other in combinations(found.blocks, 2):
            orders = _order(one, a, b), _order(other, a, b)
            if set(orders) == {"above", "below"}:
                first, second = (one, other) if orders[0] == "above" else (other, one)
                pairs.append((a, b, first.name, second.name))
    return pairs


def _order(block: Block, a: str, b: str) -> str:
    """Whether a is shown to be ahead of b in the block, by intervals that do not meet."""
    ours, theirs = _interval(block, a), _interval(block, b)
    if ours is None or theirs is None:
        return "unknown"
    if not block.metric.higher_is_better:
        ours, theirs = theirs, ours
    return "above" if ours[0] > theirs[1] else "below" if ours[1] < theirs[0] else "unknown"


def _interval(block: Block, unit: str) -> tuple[float, float] | None:
    found = next((one for one in block.comparison.differences if one.name == unit), None) if block.comparison else None
    return found.interval if found and math.isfinite(found.interval[0]) else None


def _verdict(block: Block, unit: str) -> str:
    return (
        next((one.verdict for one in block.comparison.differences if one.name == unit), "") if block.comparison else ""
    )


def _missing(found: Findings) -> Iterator[Words]:
    counted = {
        status: [run for run in found.runs if run.status == status] for status in ("diverged", "failed", "not run")
    }
    said = []
    for status, runs in counted.items():
        if runs:
            units = ", ".join(dict.fromkeys(run.unit for run in runs))
            said.append(f"{len(runs)} {'run' if len(runs) == 1 else 'runs'} {status} ({units})")
    if said:
        words = f"{'; '.join(said)}. What is compared is the seeds that both units finished, so a unit that loses its hard seeds looks better than it is."
        yield [Cell("Not all runs count: ", look="down"), words]


def _sureness(found: Findings) -> Iterator[Words]:
    comparisons = [block.comparison for block in found.blocks if block.comparison]
    if not comparisons:
        return
    level, n = comparisons[0].level, max(one.n for each in comparisons for one in each.differences)
    count = max(len(each.differences) for each in comparisons)
    visible = [effect for block in found.blocks if (effect := smallest_visible(block)) is not None]
    limit = (
        f" With {n} seeds, a difference below about {number(max(visible), 2)}{' points' if found.metric.factor != 1 else ''} would mostly go unseen."
        if visible
        else ""
    )
    yield (
        f"How sure: exact paired permutation tests, corrected by Holm over {count} {'comparison' if count == 1 else 'comparisons'} "
        f"a backbone; the chance that any verdict of a backbone is wrong is at most {100 * level:g} %.{limit}"
    )


def smallest_visible(block: Block) -> float | None:
    """The paired difference that the block's seeds would show four times in five, for a unit of middling spread."""
    if block.comparison is None:
        return None
    gaps = [list(block.differences(one.name).values()) for one in block.comparison.differences]
    spreads = sorted(statistics.stdev(gap) for gap in gaps if len(gap) > 1)
    if not spreads or not spreads[len(spreads) // 2]:
        return None
    return visible_effect(spreads[len(spreads) // 2], max(map(len, gaps)), len(gaps))


def visible_effect(spread: float, n: int, comparisons: int) -> float | None:
    """The smallest effect for which ``n`` seeds suffice, to 1 %; None where no effect is large enough."""
    low, high = 0.0, 64 * spread
    if needed(high, spread, comparisons) > n:
        return None
    while high - low > 0.01 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if needed(middle, spread, comparisons) <= n else (middle, high)
    return high


def needed(effect: float, spread: float, comparisons: int) -> float:
    """Seeds needed to show an effect; infinite beyond a million."""
    try:
        return seeds_needed(effect, spread, comparisons=comparisons)
    except ArgumentError:
        return math.inf
