"""A comparison as plain values and as CSV."""

import csv
import io
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

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


def plain_answers(result: "ComparisonResult") -> dict[str, Any]:
    """Return the rows of every model as plain values.

    Args:
        result: The comparison.
    """
    return {model: _plain(asdict(answer)) for model, answer in result.answers.items()}


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


def _plain(value: Any) -> Any:
    """Return values of JSON: numbers that are not finite become None."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
