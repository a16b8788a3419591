"""The answer of a comparison in a few sentences.

What differs from the baseline, how much, at what cost, how sure.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from itertools import combinations

from gatewise.errors import ArgumentError
from gatewise.report.charts import Cell, Look, Words
from gatewise.report.comparison.findings import Block, Findings
from gatewise.stats import EXACT_UP_TO, Difference, seeds_needed
from gatewise.words import number, signed

NOTABLE = 1.05  # a cost that differs by less is not said in the answer
COST_WORDS = {
    "parameters": "parameters",
    "flops": "FLOPs",
    "saved_bytes": "saved bytes",
    "seconds": "time",
}
LOOK_OF: dict[str, Look] = {"better": "up", "worse": "down"}
VERDICTS = ("better", "worse", "no difference shown", "too few seeds to show any")
MOST_REVERSALS = 4


def answer(found: Findings) -> list[Words]:
    """One line a block, then what holds on some blocks only, then how sure all this is."""
    lines: list[Words] = [line for block in found.blocks for line in _block_lines(found, block)]
    return [
        *lines,
        *_cost_lines(found),
        *_between_blocks(found),
        *_missing(found),
        *_sureness(found),
    ]


def decimals(found: Findings) -> int:
    """Digits behind the point: two for points of a hundred, four for anything else."""
    return 2 if found.metric.factor != 1 else 4


def _block_lines(found: Findings, block: Block) -> Iterator[Words]:
    head = Cell(f"{block.name}: ", look="name")
    if not block.compared:
        yield [head, f"nothing to compare with {found.baseline} yet."]
        return
    groups = {
        verdict: [one for one in block.compared if one.verdict == verdict] for verdict in VERDICTS
    }
    parts: list[str | Cell] = [head]
    for verdict, look in LOOK_OF.items():
        if ranked := sorted(groups[verdict], key=lambda one: -abs(one.difference)):
            verb = "is" if len(ranked) == 1 else "are"
            parts += [*_listed(found, ranked, look), f" {verb} {verdict} than {found.baseline}. "]
    for verdict in VERDICTS[2:]:
        if rest := groups[verdict]:
            parts.append(f"{verdict.capitalize()}: {', '.join(one.name for one in rest)}. ")
    yield parts


def _listed(found: Findings, ranked: Sequence[Difference], look: Look) -> Iterator[str | Cell]:
    for i, one in enumerate(ranked):
        yield ", " if i else ""
        yield Cell(f"{one.name} {signed(one.difference, decimals(found))}", look=look)


def _cost_lines(found: Findings) -> Iterator[Words]:
    """The time of each unit that differs; of other costs, between what limits all units lie."""
    named = [
        u for u in found.units[1:] if any(block.verdict(u) in LOOK_OF for block in found.blocks)
    ]
    times = {unit: [block.ratio(unit, "seconds") for block in found.blocks] for unit in named}
    slowest = sorted((u for u in named if _is_notable(times[u])), key=lambda u: -max(times[u]))
    parts = (
        [f"time {', '.join(f'{unit} {span(times[unit])}' for unit in slowest)}"] if slowest else []
    )
    for what in ("flops", "parameters"):
        ratios = [
            ratio
            for block in found.blocks
            for unit in block.runs
            if math.isfinite(ratio := block.ratio(unit, what))
        ]
        parts += [f"{COST_WORDS[what]} {span(ratios)} for all units"] if ratios else []
    if named and parts:
        yield [
            Cell("At what cost: ", look="name"),
            f"{'; '.join(parts)} (times {found.baseline}’s).",
        ]


def _is_notable(ratios: Sequence[float]) -> bool:
    return any(ratio > NOTABLE or ratio < 1 / NOTABLE for ratio in ratios)


def span(ratios: Sequence[float]) -> str:
    """``1.30×``, or ``1.20–1.35×`` where they differ."""
    shown = sorted({f"{ratio:.2f}" for ratio in ratios if math.isfinite(ratio)}, key=float)
    return f"{shown[0]}–{shown[-1]}×" if len(shown) > 1 else f"{shown[0]}×"


def _between_blocks(found: Findings) -> Iterator[Words]:
    """What holds on one block and not on another: said, never averaged away."""
    turned = [unit for unit in found.units[1:] if is_reversed(found, unit)]
    if turned:
        yield [
            Cell("Reversed: ", look="name"),
            f"{'; '.join(_sides(found, unit) for unit in turned)}.",
        ]
    if pairs := reversed_pairs(found):
        shown = [
            f"{a} is ahead of {b} on {here} and behind it on {there}" for a, b, here, there in pairs
        ]
        more = (
            f"; and {len(pairs) - MOST_REVERSALS} more pairs" if len(pairs) > MOST_REVERSALS else ""
        )
        head = Cell("The order depends on where: ", look="name")
        yield [head, f"{'; '.join(shown[:MOST_REVERSALS])}{more} (intervals apart both times)."]


def _sides(found: Findings, unit: str) -> str:
    places = {
        v: ", ".join(block.name for block in found.blocks if block.verdict(unit) == v)
        for v in LOOK_OF
    }
    return f"{unit} is better than {found.baseline} on {places['better']} and worse on {places['worse']}"


def is_reversed(found: Findings, unit: str) -> bool:
    """Whether the unit is better than the baseline in one block and worse in another."""
    return {"better", "worse"} <= {block.verdict(unit) for block in found.blocks}


def reversed_pairs(found: Findings) -> list[tuple[str, str, str, str]]:
    """Units (a, b) and blocks (here, there): a's interval lies above b's here and below it there.

    A unit that changes sides of the baseline is said apart, and left out.
    """
    pairs = []
    for a, b in combinations([unit for unit in found.units[1:] if not is_reversed(found, unit)], 2):
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
    found = next((one.interval for one in block.compared if one.name == unit), None)
    return found if found and math.isfinite(found[0]) else None


def _missing(found: Findings) -> Iterator[Words]:
    """Runs that are not in the comparison, by unit."""
    said = []
    for status in ("diverged", "failed", "not run"):
        runs = [run for run in found.runs if run.status == status]
        units = ", ".join(dict.fromkeys(run.unit for run in runs))
        said += (
            [f"{len(runs)} {'run' if len(runs) == 1 else 'runs'} {status} ({units})"]
            if runs
            else []
        )
    if said:
        rule = "Pairs are the seeds that both units finished: a unit that loses its hard seeds looks better than it is."
        yield [Cell("Not all runs count: ", look="down"), f"{', '.join(said)}. {rule}"]


def _sureness(found: Findings) -> Iterator[Words]:
    compared = [block for block in found.blocks if block.comparison]
    if not compared:
        return
    level = max(block.comparison.level for block in compared if block.comparison)
    n = max(one.n for block in compared for one in block.compared)
    most = max(len(block.compared) for block in compared)
    exact = "exact paired" if n <= EXACT_UP_TO else "paired"
    yield [
        Cell("How sure: ", look="name"),
        f"{exact} permutation tests, corrected by Holm over {most} comparison{'s' * (most > 1)}. On each backbone "
        f"the chance that any difference named here is none is at most {100 * level:g} %.{_power_words(found, n)}",
    ]


def _power_words(found: Findings, n: int) -> str:
    visible = {
        block.name: effect
        for block in found.blocks
        if (effect := smallest_visible(block)) is not None
    }
    if not visible:
        return ""
    unit = " points" if found.metric.factor != 1 else ""
    where = len(found.blocks) > 1
    limits = ", ".join(
        f"{number(effect, 2)}{unit}" + f" on {name}" * where for name, effect in visible.items()
    )
    return f" With {n} seeds, a true difference below about {limits} would be missed more than one time in five."


def smallest_visible(block: Block) -> float | None:
    """The paired difference that the block's seeds would show four times in five, for a unit of middling spread."""
    gaps = [list(block.differences(one.name).values()) for one in block.compared]
    spreads = sorted(statistics.stdev(gap) for gap in gaps if len(gap) > 1)
    if not spreads or not spreads[len(spreads) // 2]:
        return None
    return visible_effect(spreads[len(spreads) // 2], max(map(len, gaps)), len(gaps))


def visible_effect(spread: float, n: int, comparisons: int) -> float | None:
    """The smallest effect for which ``n`` seeds suffice, to 1 %.

    None where no effect is large enough.
    """
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
