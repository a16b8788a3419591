"""Read the cells of a table as numbers: finite, diverged or missing."""

import math
import re
from collections.abc import Sequence
from typing import Any

MISSING = frozenset({"", "-", "--", "na", "n/a", "none", "null", "nil", "missing", "?"})
DIVERGED = frozenset({"nan", "inf", "+inf", "-inf", "infinity", "-infinity", "diverged"})
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
LARGEST = 1e100  # MLflow, for example, writes infinity as the largest float
MOST_DECIMALS = 6  # more digits are those of a float, not of a rounded number


def number_of(value: Any, *, decimal_comma: bool = False) -> float | None:
    """Return a cell as a number: NaN if the run diverged, None if the cell is empty.

    Args:
        value: The cell.
        decimal_comma: Whether a number may have a comma for a point.

    Raises:
        ValueError: If it is something else.
    """
    if value is None:
        return None
    if isinstance(value, bool):
        raise ValueError("a truth value is not a number")
    if isinstance(value, int | float):
        return _finite(value)
    text = str(value).strip()
    lower = text.lower()
    if lower in MISSING:
        return None
    if lower in DIVERGED:
        return math.nan
    text = text.removesuffix("%").rstrip()
    if decimal_comma and DECIMAL_COMMA.fullmatch(text):
        text = text.replace(",", ".")
    # Underscores are digits of Python and not of tables.
    if "_" in text:
        raise ValueError("not a number")
    return _finite(float(text))


def step_of(values: Sequence[Any]) -> float:
    """Return the step to which values are rounded, by their digits; 0 if they are not rounded.

    Args:
        values: Cells with numbers, as text or as floats.
    """
    decimals = 0
    for value in values:
        text = value if isinstance(value, str) else repr(value)
        text = text.strip().removesuffix("%").rstrip().lower().replace(",", ".")
        if "e" in text or not text:
            return 0.0
        decimals = max(decimals, len(text.partition(".")[2].rstrip("0")))
        if decimals > MOST_DECIMALS:
            return 0.0
    return 10.0**-decimals if values else 0.0


def _finite(value: float) -> float:
    """Return a float; NaN for infinity and for numbers that count as infinite."""
    try:
        number = float(value)
    except OverflowError:
        return math.nan
    return number if abs(number) <= LARGEST else math.nan
