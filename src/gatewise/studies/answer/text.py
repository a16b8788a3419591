"""The answer in words: the same lines on the terminal, in JSON and on the page."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gatewise.studies.answer.rows import CurvePoint, ModelAnswer, UnitRow
from gatewise.words import joined, p_value, percentage, plural, rate

if TYPE_CHECKING:
    from gatewise.studies.answer.result import ComparisonResult

MOST_ROWS = 40
MOST_MODELS = 12
MOST_NOTES = 5
NAMED_RATIO = 0.02  # relative difference of parameters that a verdict names
LEVEL = 0.05
RULE = (
    "A unit is better if it is better both at the fitted peak of its rate curve and at the best "
    "rate that was tried."
)
SIMULATED = (
    "Of simulated studies without any difference, mostly 0.1 to 3 % had a false verdict{per}. "
    "docs/statistics.md names the curves for which it is more."
)
ONE_RATE = (
    "Chance of any false difference: at most 5 %{per}, for symmetric differences and independent "
    "seeds."
)


def headline_words(result: "ComparisonResult") -> str:
    """Return how the units were compared, in one sentence.

    Args:
        result: The comparison.
    """
    header = result.header
    seeds = plural(header.seeds, "seed")
    if header.rates is None:
        return "Runs made elsewhere, compared as they are."
    recipe = header.settings.get("recipe")
    epochs = recipe.get("epochs") if isinstance(recipe, dict) else None
    trained = f"trained for {plural(epochs, 'epoch')}" if isinstance(epochs, int) else "trained"
    if header.rates.count == 1:
        value = rate(header.rates.rate(0))
        return f"Every unit was {trained} at one learning rate ({value}) with the same {seeds}."
    low, high = _rates_run(result)
    count = max(len({point.step for point in _points(result)}), header.rates.count)
    return (
        f"Every unit was {trained} at the same {count} learning rates "
        f"({rate(low)} to {rate(high)}) with the same {seeds}."
    )


def _points(result: "ComparisonResult") -> Iterator[CurvePoint]:
    """Yield every point of every curve."""
    for answer in result.answers.values():
        for row in answer.rows:
            yield from row.curve


def _rates_run(result: "ComparisonResult") -> tuple[float, float]:
    """Return the lowest and the highest rate of all curves, or of the plan."""
    rates = [point.rate for point in _points(result) if point.rate is not None]
    rates += [result.study.rate(step) or math.nan for step in result.study.planned]
    return min(rates), max(rates)


def preliminary_words(result: "ComparisonResult") -> str:
    """Return ``preliminary, 120 of 200 runs``; empty if the study has ended.

    Args:
        result: The comparison.
    """
    if not result.is_preliminary:
        return ""
    done = sum(answer.done for answer in result.answers.values())
    total = sum(answer.total for answer in result.answers.values())
    return f"preliminary, {done:,} of {total:,} runs"


def verdict_line(result: "ComparisonResult", row: UnitRow) -> str:
    """Return the verdict on a unit with what limits it.

    Args:
        result: The comparison.
        row: Of the unit.
    """
    if row.verdict == "baseline":
        return f"baseline: {row.reason}" if row.reason else "baseline"
    words: str = row.verdict
    if row.verdict == "equivalent" and result.header.margin is not None:
        margin = f"{result.display.factor * result.header.margin:g}"
        words = f"equivalent within {margin} {result.display.difference_unit}".rstrip()
    if row.reason:
        joint = ", " if row.reason.startswith("by ") else ": "
        words = f"{words}{joint}{row.reason}"
    extra = parameters_words(row)
    return f"{words} ({extra})" if extra else words


def parameters_words(row: UnitRow) -> str:
    """Return ``1.04x the parameters`` if a unit has more or fewer than the baseline."""
    ratio = row.parameters_ratio
    if math.isfinite(ratio) and abs(ratio - 1) > NAMED_RATIO:
        return f"{ratio:.3g}x the parameters"
    return ""


def foot_lines(result: "ComparisonResult") -> list[str]:
    """Return what holds for all rows: error rates, collapses, and what was left out.

    Args:
        result: The comparison.
    """
    lines = []
    if not result.is_preliminary:
        lines.append(error_words(result))
    lines += [collapse_words(result)]
    notes = []
    plans = [str(plan) for plan in result.header.settings.get("plans") or []]
    if len(plans) > 1:
        notes.append(
            f"Seeds were planned again: {', then '.join(plans)}. Intervals do not correct for a "
            "look in between"
        )
    for each in result.header.as_written:
        model, activations = each.get("model", "?"), each.get("activations", "?")
        notes.append(f"{model}: left as it is with every unit: {activations}")
    for answer in result.answers.values():
        where = f"{answer.model}: " if len(result.answers) > 1 else ""
        notes += [f"{where}{note}" for note in answer.dropped]
    for left in result.header.left_out:
        notes.append(f"{left.get('unit', '?')} was not compared: {left.get('reason', 'no reason')}")
    if len(notes) > MOST_NOTES:
        notes = [*notes[:MOST_NOTES], f"and {len(notes) - MOST_NOTES} more notes on the page"]
    lines += [f"{note}." for note in notes]
    return [line for line in lines if line]


def error_words(result: "ComparisonResult") -> str:
    """Return how often such verdicts are false.

    Args:
        result: The comparison.
    """
    rates = result.header.rates
    per = " per network" if len(result.header.models) > 1 else ""
    if result.header.comparisons:
        per = " over all tables"
    is_one_rate = rates is None or rates.count == 1
    return (ONE_RATE if is_one_rate else SIMULATED).format(per=per)


def collapse_words(result: "ComparisonResult") -> str:
    """Return how many runs diverged or collapsed, or what so many seeds can exclude.

    Args:
        result: The comparison.
    """
    counts = []
    for answer in result.answers.values():
        for row in answer.rows:
            if row.diverged:
                where = f" in {answer.model}" if len(result.answers) > 1 else ""
                counts.append(f"{plural(row.diverged, 'run')} of {row.unit}{where}")
    kind = "diverged or collapsed" if result.header.chance is not None else "diverged"
    if counts:
        return f"Runs that {kind}: {joined(counts, most=6)}."
    runs = result.header.seeds
    if runs < 1 or result.is_preliminary:
        return ""
    possible = percentage(1 - LEVEL ** (1 / runs))
    each = "per rate" if result.has_curves else "of each"
    return (
        f"No run {kind} ({plural(runs, 'run')} {each}: the true share could still be up to "
        f"{possible})."
    )


def text_lines(result: "ComparisonResult") -> list[str]:
    """Return the whole answer as lines.

    Args:
        result: The comparison.
    """
    lines = [result.title, headline_words(result)]
    state = preliminary_words(result)
    if state:
        lines.append(f"{state[0].upper()}{state[1:]}: no verdicts yet.")
    elif result.has_curves:
        lines.append(RULE)
    models = list(result.answers.values())
    for place, answer in enumerate(models[:MOST_MODELS]):
        lines += [""] if place or len(models) == 1 else []
        lines += table_lines(result, answer)
    if len(models) > MOST_MODELS:
        lines.append(f"and {len(models) - MOST_MODELS} more tables on the page")
    foot = foot_lines(result)
    return [*lines, "", *foot] if foot else lines


def table_lines(result: "ComparisonResult", answer: ModelAnswer) -> list[str]:
    """Return the rows of one model as aligned lines of text.

    Args:
        result: The comparison.
        answer: Of one model.
    """
    display = result.display
    has_rates = result.has_curves
    head = [answer.model, display.label]
    head += ["best rate"] if has_rates else []
    level = _level(answer)
    head += [f"difference{level}", "p", ""]
    cells: list[list[str]] = [head]
    for row in answer.rows[:MOST_ROWS]:
        value = row.height if math.isfinite(row.height) else row.best
        line = [row.unit, display.value(value)]
        if has_rates:
            line.append(rate(row.best_rate) if row.best_rate is not None else "")
        size = display.difference(row.difference)
        line += [f"{size} {display.interval(row.low, row.high)}".strip(), p_value(row.p)]
        cells.append([*line, verdict_line(result, row)])
    lines = _aligned(cells)
    hidden = len(answer.rows) - MOST_ROWS
    return [*lines, f"and {hidden} more units on the page"] if hidden > 0 else lines


def _level(answer: ModelAnswer) -> str:
    """Return the level of the intervals: `` [99.3 %]``."""
    if not math.isfinite(answer.confidence):
        return ""
    return f" [{100 * answer.confidence:.3g} %]"


def _aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of cells as lines whose columns begin below each other."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        padded = []
        for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
            padded.append(cell.rjust(width) if place == 1 else cell.ljust(width))
        lines.append("  ".join(padded).rstrip())
    return lines
