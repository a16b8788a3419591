"""The answer of a comparison in a few sentences: what differs, by how much, and how certain."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gatewise.studies.answer.first_line import headline_line
from gatewise.studies.answer.lines import Line, Part, named
from gatewise.studies.answer.orders import reversed_pairs, reversed_units
from gatewise.studies.answer.verdicts import (
    example_noun,
    new_examples_state,
    undecided_by_noise,
    verdict_words,
    within_margin,
)
from gatewise.words import joined, number, plural, rate

if TYPE_CHECKING:
    from gatewise.stats import Comparison, Difference
    from gatewise.studies.older import Block, StudyResult

BUSY = 1.5  # slowest over fastest run of one unit: above, something else ran beside them
NOTABLE = 1.05  # a ratio of costs closer to 1 is not worth a word in the answer
COST_WORDS = {
    "parameters": "parameters",
    "flops": "FLOPs",
    "saved_bytes": "saved bytes",
    "seconds": "time",
}
MOST_BLOCKS = 12  # blocks, units and reversals that are spelled out
MOST_UNITS = 12
MOST_REVERSALS = 4
# Statuses of runs without a result, in words.
MISSING = {"not run": "not done yet", "failed": "failed", "damaged": "with a damaged record"}


def answer_lines(result: "StudyResult") -> list[Line]:
    """Return the answer: the headline, a line per block, and the runs that it lacks.

    Args:
        result: Of the study.
    """
    names = block_names(result)
    lines: list[Line] = [headline_line(result)]
    for block in result.blocks[:MOST_BLOCKS]:
        lines.append(_block_line(result, block, names[block]))
    hidden = len(result.blocks) - MOST_BLOCKS
    if hidden > 0:
        lines.append(named("And", f"{plural(hidden, 'more block')}, in the tables."))
    lines += _new_examples_lines(result)
    lines += _edge_lines(result)
    lines += _unpaired_lines(result)
    lines += _diverged_lines(result)
    lines += _missing_lines(result)
    lines += _left_out_lines(result)
    return lines


def further_lines(result: "StudyResult") -> list[Line]:
    """Return what belongs to the answer and can stand after the charts.

    These are costs, statements about several blocks, and how certain all of it is.

    Args:
        result: Of the study.
    """
    lines: list[Line] = list(_certainty_lines(result))
    lines += _reversal_lines(result, block_names(result))
    lines += _cost_lines(result)
    return lines


def block_names(result: "StudyResult") -> dict["Block", str]:
    """Return the name of each block: those of its three parts that are not the same for all.

    Args:
        result: Of the study.
    """
    varied = [place for place in range(3) if len({block[place] for block in result.blocks}) > 1]
    names = {}
    for block in result.blocks:
        names[block] = " · ".join(block[place] for place in varied or [0])
    return names


def level_words(comparison: "Comparison") -> str:
    """Return the level of the intervals: ``99.3 % each, 95 % for all 7``.

    Args:
        comparison: Of one block.
    """
    share = 100 * (1 - comparison.level / comparison.comparisons)
    whole = f"{number(100 * (1 - comparison.level))} %"
    if comparison.comparisons == 1:
        return whole
    digits = 1 if share < 99.95 else 2
    return f"{share:.{digits}f} % each, {whole} for all {comparison.comparisons:,}"


def _block_line(result: "StudyResult", block: "Block", name: str) -> Line:
    """The units that are better, worse, equivalent or undecided on one block."""
    parts = [Part(f"{name}: ", "name")]
    comparison = result.compare_block(block)
    if comparison is None:
        return (*parts, Part(f"nothing to compare with {result.baseline} yet."))
    for verdict in ("better", "worse"):
        decided = _with_verdict(comparison, verdict)
        sizes: dict[bool, list[Difference]] = {False: [], True: []}
        for difference in decided:
            sizes[within_margin(result, difference)].append(difference)
        for small, members in sizes.items():
            less = ", by less than the margin" if small else ""
            if members:
                parts += _named_differences(result, members)
                verb = "is" if len(members) == 1 else "are"
                parts.append(Part(f" {verb} {verdict} than {result.baseline}{less}. "))
                parts.append(Part(_new_examples(result, members)))
    equal = _with_verdict(comparison, "equivalent")
    if equal:
        parts += _named_differences(result, equal)
        verb = "is" if len(equal) == 1 else "are"
        words = verdict_words(result, equal[0])
        parts.append(Part(f" {verb} {words} of {result.baseline}. "))
    parts += _undecided(result, _with_verdict(comparison, "undecided"))
    return tuple(parts)


def _with_verdict(comparison: "Comparison", verdict: str) -> list["Difference"]:
    """The units with a verdict, the largest differences first."""
    members = [row for row in comparison.differences if row.verdict == verdict]
    return sorted(members, key=lambda row: -abs(finite_or_zero(row.difference)))


def finite_or_zero(value: float) -> float:
    """Return 0 for a value that is not finite, which has no order of its own."""
    return value if math.isfinite(value) else 0.0


def _named_differences(
    result: "StudyResult",
    differences: Sequence["Difference"],
) -> Iterator[Part]:
    """Yield units with their differences, separated by commas."""
    for place, difference in enumerate(differences[:MOST_UNITS]):
        if place:
            yield Part(", ")
        size = result.display.difference(difference.difference)
        yield Part(f"{difference.name} {size}", interval=difference.interval)
        if difference.reason:
            yield Part(f" ({difference.reason})")
    hidden = len(differences) - MOST_UNITS
    if hidden > 0:
        yield Part(f" and {plural(hidden, 'more unit')}")


def _undecided(result: "StudyResult", differences: Sequence["Difference"]) -> Iterator[Part]:
    """Yield the undecided units by reason, with what would have been found."""
    by_reason: dict[str, list[Difference]] = {}
    for difference in differences:
        by_reason.setdefault(difference.reason, []).append(difference)
    for reason, members in by_reason.items():
        because = f" ({reason})" if reason else ""
        names = joined([member.name for member in members], most=MOST_UNITS)
        yield Part(f"Undecided{because}: {names}. ")
    noisy = [difference for difference in differences if undecided_by_noise(difference)]
    if noisy:
        sizes = sorted(difference.detectable or math.nan for difference in noisy)
        low = result.display.size(sizes[0])
        high = result.display.size(sizes[-1])
        span = high if low == high else f"{low.removesuffix(result.display.unit)} to {high}"
        where = ", at the chosen rates alone" if result.tuned else ""
        yield Part(f"A difference of {span} would have been found four times in five{where}. ")


def _new_examples(result: "StudyResult", members: Sequence["Difference"]) -> str:
    """Whether a verdict also holds for test examples that were not used.

    Where no run says which examples were right, one line for the whole study says that.
    """
    if not _examples_known(result):
        return ""
    noun = example_noun(result)
    states: dict[str, list[str]] = {}
    for difference in members:
        states.setdefault(new_examples_state(difference), []).append(difference.name)
    sentences = {
        "also": f"this also holds for new {noun}.",
        "undecided": f"this holds for these test {noun}; for new {noun} it is undecided.",
        "not known": f"whether this holds for new {noun} is not known.",
    }
    texts = []
    for state, names in states.items():
        sentence = sentences[state]
        if len(states) == 1:
            texts.append(sentence[0].upper() + sentence[1:])
        else:
            texts.append(f"For {joined(names, most=MOST_UNITS)}, {sentence}")
    return f"{' '.join(texts)} "


def _examples_known(result: "StudyResult") -> bool:
    """Whether any run says which test examples were right."""
    return any(run.record.get("correct") for run in result.runs)


def _new_examples_lines(result: "StudyResult") -> Iterator[Line]:
    """That nothing is known of new examples, if some unit differs."""
    if _differing(result) and not _examples_known(result):
        noun = example_noun(result)
        words = (
            f"not known. The verdicts hold for these test {noun}; "
            "the runs keep no result for each of them."
        )
        yield named(f"For new {noun}", words)


def _cost_lines(result: "StudyResult") -> Iterator[Line]:
    """The time of each unit that differs, and the range of the other costs over all units."""
    differing = _differing(result)
    ratios: dict[str, dict[str, list[float]]] = {}
    for cost in result.costs:
        for name, ratio in cost["ratios"].items():
            if ratio is not None:
                ratios.setdefault(name, {}).setdefault(cost["unit"], []).append(ratio)
    times = {unit: ratios.get("seconds", {}).get(unit, []) for unit in differing}
    if not times:
        return
    notable = [unit for unit, values in times.items() if _is_notable(values)]
    notable.sort(key=lambda unit: -max(times[unit]))
    parts = []
    if notable:
        shown = [f"{unit} {span(times[unit])}" for unit in notable]
        parts.append(f"time {joined(shown, most=MOST_UNITS)}")
    for name in ("flops", "parameters"):
        values = [value for by_unit in ratios.get(name, {}).values() for value in by_unit]
        if values:
            parts.append(f"{COST_WORDS[name]} {span(values)} for all units")
    if parts:
        words = f"{'; '.join(parts)} (relative to {result.baseline})."
        slowest = max((cost["slowest"] or 1.0 for cost in result.costs), default=1.0)
        if notable and slowest > BUSY:
            words += (
                f" Times are of the fastest run of each unit. The slowest took {slowest:.1f} times "
                "as long, so they are rough."
            )
        yield named("At what cost", words)


def _differing(result: "StudyResult") -> list[str]:
    """The units that are better or worse than the baseline on some block."""
    units: dict[str, None] = {}
    for comparison in _comparisons(result):
        for difference in comparison.differences:
            if difference.verdict in ("better", "worse"):
                units[difference.name] = None
    return list(units)


def _is_notable(ratios: Sequence[float]) -> bool:
    """Whether a ratio of costs is far enough from 1 to be mentioned."""
    return any(ratio > NOTABLE or ratio < 1 / NOTABLE for ratio in ratios)


def span(ratios: Iterable[float]) -> str:
    """Return ``1.30×``, or ``1.20–1.35×`` if the ratios differ.

    Args:
        ratios: One or more.
    """
    shown = sorted({f"{ratio:.2f}" for ratio in ratios if math.isfinite(ratio)}, key=float)
    return f"{shown[0]}–{shown[-1]}×" if len(shown) > 1 else f"{shown[0]}×"


def _reversal_lines(result: "StudyResult", names: dict["Block", str]) -> Iterator[Line]:
    """What holds on one block and is reversed on another. Averages would hide it."""
    units = reversed_units(result)
    if units:
        sides = []
        for unit, places in list(units.items())[:MOST_REVERSALS]:
            better = joined([names[block] for block in places["better"]])
            worse = joined([names[block] for block in places["worse"]])
            sides.append(
                f"{unit} is better than {result.baseline} on {better} and worse on {worse}"
            )
        yield named("Reversed", f"{'; '.join(sides)} (corrected for all blocks).")
    pairs = [pair for pair in reversed_pairs(result) if not {pair[0], pair[1]} & units.keys()]
    if pairs:
        shown = []
        for a, b, here, there in pairs[:MOST_REVERSALS]:
            shown.append(f"{a} is ahead of {b} on {names[here]} and behind it on {names[there]}")
        hidden = len(pairs) - MOST_REVERSALS
        if hidden > 0:
            shown.append(f"and {hidden} more pairs")
        words = f"{'; '.join(shown)} (tested pair by pair, corrected for all pairs and blocks)."
        yield named("The order depends on the network", words)


def _edge_lines(result: "StudyResult") -> Iterator[Line]:
    """The units whose chosen learning rate is the first or last that was tried."""
    several = len({block[0] for block in result.blocks}) > 1
    shown = []
    for group in result.tuning.get("groups") or ():
        if group.get("at_the_edge"):
            where = f" in {group['backbone']}" if several else ""
            shown.append(f"{group['unit']}{where} ({rate(group['lr'])})")
    if shown:
        words = (
            f"{joined(shown, most=MOST_UNITS)}. The chosen rate is the smallest or largest that "
            "was tried. A rate beyond it may be better."
        )
        yield named("At the end of the rates", words, "warning")


def _unpaired_lines(result: "StudyResult") -> Iterator[Line]:
    """That the units did not see the same batches, and why."""
    why = unpaired_batches(result)
    if why:
        words = (
            f"{why}. Units with the same seed did not see the same batches. That adds noise to "
            "every difference; the intervals include it."
        )
        yield named("Batches are not paired", words, "warning")


def unpaired_batches(result: "StudyResult") -> str:
    """Return why units did not see the same batches; empty if they did or if it is not known.

    Args:
        result: Of the study.
    """
    batches = result.content.get("batches")
    if not isinstance(batches, Mapping) or batches.get("paired", True):
        return ""
    return str(batches.get("why") or "not known why").strip().rstrip(".")


def _diverged_lines(result: "StudyResult") -> Iterator[Line]:
    """The runs that diverged, by unit. They are results."""
    counts = _count(result, ("diverged",))
    if counts:
        words = (
            f"{_counted(counts)}. A diverged run is a result, not a missing value: a verdict must "
            "also hold with these runs at the worst value of all runs."
        )
        yield named("Diverged runs", words, "warning")


def _missing_lines(result: "StudyResult") -> Iterator[Line]:
    """The runs that have no result, by unit."""
    parts = []
    for status, words in MISSING.items():
        counts = _count(result, (status,))
        if counts:
            total = sum(counts.values())
            units = joined(list(counts), most=MOST_UNITS)
            parts.append(f"{plural(total, 'run')} {words} ({units})")
    if parts:
        words = (
            f"{', '.join(parts)}. These runs are not part of the comparison. "
            "A unit that fails on difficult seeds looks better than it is."
        )
        yield named("Runs are missing", words, "warning")


def _count(result: "StudyResult", statuses: Sequence[str]) -> dict[str, int]:
    """The number of runs with one of the statuses, by unit."""
    counts: dict[str, int] = {}
    for run in result.runs:
        if run.status in statuses:
            counts[run.unit] = counts.get(run.unit, 0) + 1
    return counts


def _counted(counts: dict[str, int]) -> str:
    """Units with their counts: ``psc 2, swish 1``."""
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return joined([f"{unit} {count}" for unit, count in ordered], most=MOST_UNITS)


def _left_out_lines(result: "StudyResult") -> Iterator[Line]:
    """The units that were not run, with the reason."""
    shown = []
    for entry in result.content.get("left_out") or ():
        place = f" in {entry['backbone']}" if entry.get("backbone") else ""
        shown.append(f"{entry.get('unit')}{place}: {entry.get('reason')}")
    if shown:
        yield named("Left out", f"{'; '.join(shown[:MOST_UNITS])}.", "warning")


def _certainty_lines(result: "StudyResult") -> Iterator[Line]:
    """The test, its level, and how many blocks it holds for."""
    comparisons = _comparisons(result)
    if not comparisons:
        return
    largest = max(comparisons, key=lambda comparison: comparison.comparisons)
    methods = {row.method for comparison in comparisons for row in comparison.differences}
    error = number(100 * largest.level)
    blocks = len(result.blocks)
    scope = f"for each of {blocks:,} blocks" if blocks > 1 else "in all"
    corrected = " (Bonferroni)" if largest.comparisons > 1 else ""
    words = (
        f"intervals by {joined(sorted(methods))}, {level_words(largest)}{corrected}. "
        f"The chance of any false difference is at most {error} % {scope}."
    )
    yield named("How certain", words)


def _comparisons(result: "StudyResult") -> list["Comparison"]:
    """The comparisons of all blocks that have one."""
    comparisons = []
    for block in result.blocks:
        comparison = result.compare_block(block)
        if comparison is not None:
            comparisons.append(comparison)
    return comparisons
