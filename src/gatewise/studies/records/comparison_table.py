"""A comparison as a CSV file: one row per task and method."""

import csv
import io
import math

from gatewise.studies.answer import block_names
from gatewise.studies.older import StudyResult

COLUMNS = (
    "task",
    "method",
    "n",
    "mean",
    "spread",
    "difference",
    "low",
    "high",
    "confidence",
    "p",
    "p_corrected",
    "p_exact",
    "verdict",
    "reason",
    "detectable",
    "test",
    "diverged",
    "low_95_alone",
    "high_95_alone",
)


def comparison_csv(result: StudyResult) -> str:
    """Return the comparisons of all blocks as CSV.

    ``low`` and ``high`` are the ends of the interval that decides, at level ``confidence``. The
    last two columns are the interval without correction for the number of methods.

    Args:
        result: Of a study or of a table of runs.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    names = block_names(result)
    for block in result.blocks:
        comparison = result.compare_block(block)
        if comparison is None:
            continue
        name = names[block]
        base = (comparison.baseline, comparison.n, comparison.baseline_mean)
        row = [name, *base, comparison.baseline_spread, *[""] * 7, "baseline", "", "", ""]
        writer.writerow([*map(_cell, row), comparison.baseline_diverged, "", ""])
        for one in comparison.differences:
            row = [
                name,
                one.name,
                one.n,
                one.mean,
                one.spread,
                one.difference,
                *one.interval,
                one.confidence,
                one.p,
                one.p_corrected,
                one.p_exact,
                one.verdict,
                one.reason,
                one.detectable,
                one.method,
                one.diverged,
                *one.interval_alone,
            ]
            writer.writerow(map(_cell, row))
    return text.getvalue()


def _cell(value: object) -> object:
    """Return a cell; nothing for a number that is not known."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return value
