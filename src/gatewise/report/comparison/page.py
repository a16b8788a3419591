"""The page of a comparison: the rows first, then what holds for all, then the details."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gatewise.files import write_text
from gatewise.report.charts import Words
from gatewise.report.comparison import tables
from gatewise.report.comparison.rows_chart import rate_rows
from gatewise.report.sheet import Code, Folded, Section, Sheet, Text, sheet_page
from gatewise.studies import (
    RULE,
    ComparisonResult,
    ModelAnswer,
    foot_lines,
    headline_words,
    preliminary_words,
)
from gatewise.words import plural

MOST_MODELS = 24
HOW_TO_READ = (
    "Left: the mean over seeds at each learning rate, with a band of one standard deviation; the "
    "dot is the best rate tried. A triangle marks where a curve leaves the picture.",
    "Right: the difference at the fitted peaks. The bar is one interval that spans two estimates, "
    "at the fitted peaks and at the best rates tried, each a paired t interval over seeds, "
    "corrected for the number of units. The unit is better or worse if the bar leaves out zero.",
)
HOW_TO_READ_DIFFERENCES = (
    "The bar is the confidence interval of the mean difference, corrected for the number of "
    "comparisons. It decides: better or worse if it leaves out zero.",
)
PLATEAU = (
    "The peak is where the fitted curve is highest. sd: of a run at the best rate tried. Plateau: "
    "by which factor the rate can change while the curve stays within one standard deviation of a "
    "run of its best."
)


def comparison_page(result: ComparisonResult | Mapping[str, Any]) -> str:
    """Return the page of a comparison as one HTML text that needs no other file and no network.

    Args:
        result: The comparison, or its plain values.
    """
    if not isinstance(result, ComparisonResult):
        result = ComparisonResult(result["header"], result["records"])
    return sheet_page(comparison_sheet(result))


def write_comparison(result: ComparisonResult | Mapping[str, Any], out: str | Path) -> Path:
    """Write the page of a comparison to a file, and return its path.

    Args:
        result: The comparison, or its plain values.
        out: The file.
    """
    target = Path(out)
    write_text(target, comparison_page(result))
    return target


def comparison_sheet(result: ComparisonResult) -> Sheet:
    """Return the page as a record.

    Args:
        result: The comparison.
    """
    answers = list(result.answers.values())
    lead: list[Any] = []
    for answer in answers[:MOST_MODELS]:
        if answer.units:
            lead.append(rate_rows(result, answer))
    if len(answers) > MOST_MODELS:
        lead.append(Text([f"{len(answers) - MOST_MODELS} more tables are in the JSON."]))
    sections = [Section("Details", list(_details(result, answers[:MOST_MODELS])))]
    return Sheet(
        result.title,
        _about(result),
        _answer(result),
        sections,
        kind="compare",
        contents=False,
        lead=lead,
    )


def _about(result: ComparisonResult) -> Words:
    """Return the line below the heading: how the units were compared, and how far."""
    state = preliminary_words(result)
    words = headline_words(result)
    return f"{state[0].upper()}{state[1:]}. {words}" if state else words


def _answer(result: ComparisonResult) -> list[Words]:
    """Return what holds for all rows."""
    lines: list[Words] = []
    if result.is_preliminary:
        lines.append("There are no verdicts before the last run has ended.")
    elif result.has_curves:
        lines.append(RULE)
    return [*lines, *foot_lines(result)]


def _details(result: ComparisonResult, answers: list[ModelAnswer]) -> Iterator[Any]:
    """Yield everything else, folded."""
    has_curves = result.has_curves
    how = list(HOW_TO_READ if has_curves else HOW_TO_READ_DIFFERENCES)
    yield Folded("How to read the picture", [Text(how)])
    numbers: list[Any] = [tables.differences_table(result, answer) for answer in answers]
    if has_curves:
        numbers.append(Text([PLATEAU]))
    yield Folded("The numbers", numbers, open=True)
    for title, table in (
        ("At every learning rate", tables.curves_table),
        ("Differences at equal learning rates", tables.equal_rates_table),
        ("Costs", tables.costs_table),
        ("Other metrics", tables.metrics_table),
    ):
        found = [one for answer in answers if (one := table(result, answer)) is not None]
        if found:
            yield Folded(title, found)
    yield from _runs(result)
    yield from _settings(result)


def _runs(result: ComparisonResult) -> Iterator[Any]:
    """Yield the runs that failed, and what all were made on."""
    failed = tables.failed_table(result)
    if failed:
        yield Folded("Runs that failed, diverged or collapsed", [failed])
    machines = tables.machines_table(result)
    if machines:
        count = plural(len(result.records), "run")
        yield Folded(f"Environment of {count}", [machines])


def _settings(result: ComparisonResult) -> Iterator[Any]:
    """Yield the settings of the study, and the notes on how a table was read."""
    header = result.header
    if header.notes:
        yield Folded("How the table was read", [Text(list(header.notes), points=True)])
    plain = {
        name: value
        for name, value in result.study.plain_header.items()
        if name not in ("notes", "title") and value not in (None, "", [], {})
    }
    text = json.dumps(plain, indent=1, ensure_ascii=False, default=str)
    yield Folded("Settings of the study", [Code(text)])
