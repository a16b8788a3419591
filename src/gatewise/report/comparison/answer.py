"""The answer of a comparison in a few sentences: what differs, by how much, at what cost."""

import math
import statistics
from collections.abc import Iterator, Sequence
from itertools import combinations

from gatewise.errors import ArgumentError
from gatewise.report.charts import Cell, Look, Words
from gatewise.report.comparison.findings import Block, Findings
from gatewise.stats import EXACT_UP_TO, Difference, seeds_needed
from gatewise.words import number, plural, signed

NOTABLE = 1.05  # a ratio of costs closer to 1 is not worth a word in the answer
COST_WORDS = {
    "parameters": "parameters",
    "flops": "FLOPs",
    "saved_bytes": "saved bytes",
    "seconds": "time",
}
LOOK_OF: dict[str, Look] = {"better": "up", "worse": "down"}
UNDECIDED = ("no difference shown", "too few seeds to show any")
MOST_REVERSALS = 4
LARGEST_EFFECT = 64  # standard deviations: a search for the smallest visible effect starts here


def answer_lines(findings: Findings) -> list[Words]:
    """Return one line per block, then costs, reversals, missing runs and how certain it all is."""
    lines: list[Words] = [_block_line(findings, block) for block in findings.blocks]
    lines += _cost_lines(findings)
    lines += _reversal_lines(findings)
    lines += _missing_lines(findings)
    lines += _certainty_lines(findings)
    return lines


def decimals(findings: Findings) -> int:
    """Return the digits after the decimal point: two for percentage points, else four."""
    return 2 if findings.metric.factor != 1 else 4


def _block_line(findings: Findings, block: Block) -> Words:
    """The units that are better, worse or neither, on one network, data set and recipe."""
    parts: list[str | Cell] = [Cell(f"{block.name}: ", look="name")]
    if not block.compared:
        return [*parts, f"nothing to compare with {findings.baseline} yet."]
    for verdict, look in LOOK_OF.items():
        units = block.with_verdict(verdict)
        if units:
            units.sort(key=lambda difference: -abs(difference.difference))
            verb = "is" if len(units) == 1 else "are"
            parts += _list_differences(findings, units, look)
            parts.append(f" {verb} {verdict} than {findings.baseline}. ")
    for verdict in UNDECIDED:
        names = [difference.name for difference in block.with_verdict(verdict)]
        if names:
            parts.append(f"{verdict.capitalize()}: {', '.join(names)}. ")
    return parts


def _list_differences(
    findings: Findings, differences: Sequence[Difference], look: Look
) -> Iterator[str | Cell]:
    """Yield each unit with its difference, separated by commas."""
    for place, difference in enumerate(differences):
        yield ", " if place else ""
        size = signed(difference.difference, decimals(findings))
        yield Cell(f"{difference.name} {size}", look=look)


def _cost_lines(findings: Findings) -> Iterator[Words]:
    """The time of each unit that differs, and the range of the other costs over all units."""
    times: dict[str, list[float]] = {}
    for unit in findings.units[1:]:
        if any(block.verdict(unit) in LOOK_OF for block in findings.blocks):
            times[unit] = [block.ratio(unit, "seconds") for block in findings.blocks]
    if not times:
        return
    notable = [unit for unit, ratios in times.items() if _is_notable(ratios)]
    notable.sort(key=lambda unit: -max(times[unit]))
    parts = []
    if notable:
        parts.append(f"time {', '.join(f'{unit} {span(times[unit])}' for unit in notable)}")
    for cost in ("flops", "parameters"):
        ratios = []
        for block in findings.blocks:
            ratios += [block.ratio(unit, cost) for unit in block.runs]
        if any(map(math.isfinite, ratios)):
            parts.append(f"{COST_WORDS[cost]} {span(ratios)} for all units")
    if parts:
        words = f"{'; '.join(parts)} (relative to {findings.baseline})."
        yield [Cell("At what cost: ", look="name"), words]


def _is_notable(ratios: Sequence[float]) -> bool:
    """Whether a ratio of costs is far enough from 1 to be mentioned."""
    return any(ratio > NOTABLE or ratio < 1 / NOTABLE for ratio in ratios)


def span(ratios: Sequence[float]) -> str:
    """Return ``1.30×``, or ``1.20–1.35×`` if the ratios differ."""
    shown = sorted({f"{ratio:.2f}" for ratio in ratios if math.isfinite(ratio)}, key=float)
    return f"{shown[0]}–{shown[-1]}×" if len(shown) > 1 else f"{shown[0]}×"


def _reversal_lines(findings: Findings) -> Iterator[Words]:
    """What holds on one block and is reversed on another. Averages would hide it."""
    units = [unit for unit in findings.units[1:] if is_reversed(findings, unit)]
    if units:
        sides = "; ".join(_sides(findings, unit) for unit in units)
        yield [Cell("Reversed: ", look="name"), f"{sides}."]
    pairs = reversed_pairs(findings)
    if pairs:
        shown = []
        for a, b, here, there in pairs[:MOST_REVERSALS]:
            shown.append(f"{a} is ahead of {b} on {here} and behind it on {there}")
        hidden = len(pairs) - MOST_REVERSALS
        if hidden > 0:
            shown.append(f"and {hidden} more pairs")
        words = f"{'; '.join(shown)} (the intervals do not overlap either time)."
        yield [Cell("The order depends on the network: ", look="name"), words]


def _sides(findings: Findings, unit: str) -> str:
    """On which blocks a reversed unit is better, and on which it is worse."""
    places: dict[str, str] = {}
    for verdict in LOOK_OF:
        names = [block.name for block in findings.blocks if block.verdict(unit) == verdict]
        places[verdict] = ", ".join(names)
    better = f"{unit} is better than {findings.baseline} on {places['better']}"
    return f"{better} and worse on {places['worse']}"


def is_reversed(findings: Findings, unit: str) -> bool:
    """Return whether the unit is better than the baseline on one block and worse on another."""
    return {"better", "worse"} <= {block.verdict(unit) for block in findings.blocks}


def reversed_pairs(findings: Findings) -> list[tuple[str, str, str, str]]:
    """Return units a, b and blocks here, there: a is above b here and below b there.

    Above and below mean that the two intervals do not overlap. Units that are better than the
    baseline on one block and worse on another have their own line and are left out.
    """
    units = [unit for unit in findings.units[1:] if not is_reversed(findings, unit)]
    pairs = []
    for a, b in combinations(units, 2):
        for one, other in combinations(findings.blocks, 2):
            first = _order(one, a, b)
            second = _order(other, a, b)
            if (first, second) == ("above", "below"):
                pairs.append((a, b, one.name, other.name))
            elif (first, second) == ("below", "above"):
                pairs.append((a, b, other.name, one.name))
    return pairs


def _order(block: Block, a: str, b: str) -> str:
    """Whether the interval of ``a`` is above or below that of ``b``; unknown if they overlap."""
    ours = _interval(block, a)
    theirs = _interval(block, b)
    if ours is None or theirs is None:
        return "unknown"
    if not block.metric.higher_is_better:
        ours, theirs = theirs, ours
    if ours[0] > theirs[1]:
        return "above"
    return "below" if ours[1] < theirs[0] else "unknown"


def _interval(block: Block, unit: str) -> tuple[float, float] | None:
    """The interval of a unit's difference in a block; None if there is none."""
    for difference in block.compared:
        if difference.name == unit and math.isfinite(difference.interval[0]):
            return difference.interval
    return None


def _missing_lines(findings: Findings) -> Iterator[Words]:
    """The runs that are not part of the comparison, by unit."""
    parts = []
    for status in ("diverged", "failed", "not run"):
        units = [run.unit for run in findings.runs if run.status == status]
        if units:
            names = ", ".join(dict.fromkeys(units))
            parts.append(f"{plural(len(units), 'run')} {status} ({names})")
    if parts:
        words = (
            f"{', '.join(parts)}. A pair needs the same seed from both units. "
            "A unit that fails on difficult seeds therefore looks better than it is."
        )
        yield [Cell("Runs are missing: ", look="down"), words]


def _certainty_lines(findings: Findings) -> Iterator[Words]:
    """The tests that were used, their level, and the smallest difference they can show."""
    comparisons = [block.comparison for block in findings.blocks if block.comparison]
    if not comparisons:
        return
    level = max(comparison.level for comparison in comparisons)
    most = max(len(comparison.differences) for comparison in comparisons)
    seeds = 0
    for comparison in comparisons:
        seeds = max(seeds, *(difference.n for difference in comparison.differences))
    test = "Exact paired" if seeds <= EXACT_UP_TO else "Paired"
    words = (
        f"{test} permutation tests, corrected for {plural(most, 'comparison')} (Holm). "
        f"Per network, the chance of any false difference is at most {100 * level:g} %."
        f"{_power_words(findings, seeds)}"
    )
    yield [Cell("How certain: ", look="name"), words]


def _power_words(findings: Findings, seeds: int) -> str:
    """A sentence on the smallest difference that these seeds can show; empty if not known."""
    unit = " points" if findings.metric.factor != 1 else ""
    limits = []
    for block in findings.blocks:
        effect = smallest_visible(block)
        if effect is not None:
            where = f" on {block.name}" if len(findings.blocks) > 1 else ""
            limits.append(f"{number(effect, 2)}{unit}{where}")
    if not limits:
        return ""
    return (
        f" With {seeds} seeds, a true difference below about {', '.join(limits)} "
        "would be missed more than one time in five."
    )


def smallest_visible(block: Block) -> float | None:
    """Return the difference that the seeds of a block would show four times in five.

    The spread is that of the median unit. None if no spread is known.
    """
    most = 0
    spreads = []
    for difference in block.compared:
        gaps = list(block.differences(difference.name).values())
        most = max(most, len(gaps))
        if len(gaps) > 1:
            spreads.append(statistics.stdev(gaps))
    if not spreads:
        return None
    middle = sorted(spreads)[len(spreads) // 2]
    return visible_effect(middle, most, len(block.compared)) if middle else None


def visible_effect(spread: float, n: int, comparisons: int) -> float | None:
    """Return the smallest effect for which ``n`` seeds suffice, to 1 %.

    Args:
        spread: The standard deviation of the paired differences.
        n: The number of seeds.
        comparisons: How many comparisons the tests are corrected for.

    Returns:
        The effect in the unit of ``spread``; None if no effect is large enough.
    """
    low = 0.0
    high = LARGEST_EFFECT * spread
    if needed(high, spread, comparisons) > n:
        return None
    while high - low > 0.01 * high:
        middle = (low + high) / 2
        if needed(middle, spread, comparisons) <= n:
            high = middle
        else:
            low = middle
    return high


def needed(effect: float, spread: float, comparisons: int) -> float:
    """Return the number of seeds that show ``effect``; infinite beyond a million."""
    try:
        return seeds_needed(effect, spread, comparisons=comparisons)
    except ArgumentError:
        return math.inf
