"""A comparison as CSV."""

import csv
import io
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gatewise.studies.answer.result import ComparisonResult

COLUMNS = (
    "model",
    "unit",
    "n",
    "mean",
    "spread",
    "best_rate",
    "peak_rate",
    "difference",
    "low",
    "high",
    "confidence",
    "p_corrected",
    "verdict",
    "reason",
    "diverged",
    "test",
)
# A spreadsheet runs a cell that begins with one of these as a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def comparison_csv(result: "ComparisonResult") -> str:
    """Return the rows of all models as CSV, in recorded values.

    Text that a spreadsheet would read as a formula begins with an apostrophe.

    Args:
        result: The comparison.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for model, answer in result.answers.items():
        for row in answer.rows:
            cells = [
                model,
                row.unit,
                row.runs,
                row.best,
                row.spread,
                row.best_rate,
                row.peak_rate,
                row.difference,
                row.low,
                row.high,
                answer.confidence,
                row.p,
                row.verdict,
                row.reason,
                row.diverged,
                row.test,
            ]
            writer.writerow(map(csv_cell, cells))
    return text.getvalue()


def csv_cell(value: object) -> object:
    """Return a cell of a CSV file; nothing for a number that is not known."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, str) and value.startswith(FORMULA):
        return f"'{value}"
    return value
