"""Means over seeds, and intervals that a right theory is in."""

import math
from collections.abc import Sequence

from gatewise.papers.common.records import Line, Numbers, Row

CONFIDENCE = 0.999
ROUNDING = 1e-9


def half_width(values: Sequence[float], *, compared: int = 1) -> float:
    """Half the width of Student's 99.9 % interval for the mean, when ``compared`` such intervals must all hold."""
    from scipy.stats import t

    n = len(values)
    if n < 2:
        return math.inf
    return (
        float(t.ppf(1 - (1 - CONFIDENCE) / (2 * compared), n - 1))
        * deviation(values)
        / math.sqrt(n)
    )


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean; NaN of none, which is neither above nor below anything."""
    return math.fsum(values) / len(values) if values else math.nan


def deviation(values: Sequence[float]) -> float:
    """The standard deviation of a sample; 0 for one value."""
    if len(values) < 2:
        return 0.0
    centre = mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def finite(values: Numbers) -> list[float]:
    """Those that are numbers."""
    return [float(value) for value in values if value is not None and math.isfinite(value)]


def row(
    what: str,
    values: Numbers,
    *,
    published: float | None = None,
    closed_form: float | None = None,
    compared: int = 0,
) -> Row:
    """A row of one value per seed.

    With ``compared`` rows that must all agree, it is held against its closed form.
    """
    good = finite(values)
    within = half_width(good, compared=compared) if compared and len(good) > 1 else None
    if within is not None and closed_form is not None:
        within += ROUNDING * abs(closed_form)  # all seeds may agree to the last digit
    return Row(
        what=what,
        ours=mean(good) if good else None,
        spread=deviation(good) if len(good) > 1 else None,
        seeds=len(good),
        published=published,
        closed_form=closed_form,
        within=within,
        left_out=len(values) - len(good),
    )


def line(label: str, x: Numbers, seeds: Sequence[Numbers]) -> Line:
    """A curve with one list of values per seed.

    Mean and spread of those that are finite at each point.
    """
    points = [finite(column) for column in zip(*seeds, strict=True)]
    means = [mean(point) if point else None for point in points]
    spreads = [deviation(point) if point else None for point in points] if len(seeds) > 1 else None
    return Line(label, list(x), means, spreads)
