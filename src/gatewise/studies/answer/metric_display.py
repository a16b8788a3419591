"""How a metric is shown: its unit, and how many digits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gatewise.studies.answer.checked_study import CheckedStudy
from gatewise.studies.answer.rows import ModelAnswer
from gatewise.words import MINUS, signed

MOST_DIGITS = 10


@dataclass(frozen=True)
class MetricDisplay:
    """How values and differences of one metric are written.

    Attributes:
        metric: Its name in the records.
        factor: What a recorded value is multiplied with: 100 for a share, else 1.
        unit: Of values: ``%``, or nothing.
        higher_is_better: Whether larger values are better.
        digits: Digits after the decimal point.
    """

    metric: str
    factor: float
    unit: str
    higher_is_better: bool
    digits: int

    @property
    def name(self) -> str:
        """The name in words: ``test accuracy``."""
        return self.metric.replace("_", " ")

    @property
    def label(self) -> str:
        """The name of values: ``test accuracy in %``."""
        return f"{self.name} in {self.unit}" if self.unit else self.name

    @property
    def difference_unit(self) -> str:
        """What differences are counted in: ``points``, the unit, or nothing."""
        return "points" if self.unit == "%" else self.unit

    def value(self, value: float) -> str:
        """Return a recorded value as text; ``-`` if it is not finite."""
        if not math.isfinite(value):
            return "-"
        return f"{self.factor * value:.{self.digits}f}".replace("-", MINUS)

    def difference(self, difference: float) -> str:
        """Return a difference with its sign: ``+1.09``."""
        return signed(self.factor * difference, self.digits)

    def interval(self, low: float, high: float) -> str:
        """Return ``[+0.003, +0.89]``; empty if there is no interval.

        Only an end that is zero reads as zero.
        """
        if not (math.isfinite(low) and math.isfinite(high)):
            return ""
        ends = [signed(self.factor * end, self.digits, exact_zero=True) for end in (low, high)]
        return f"[{ends[0]}, {ends[1]}]"


def metric_display(study: CheckedStudy, answers: Sequence[ModelAnswer]) -> MetricDisplay:
    """Return how the metric of a study is shown.

    The spread over seeds at the units' best rates has two digits.

    Args:
        study: Its header and records.
        answers: The rows of its models.
    """
    metric = study.header.metric
    spreads = []
    for answer in answers:
        for row in answer.rows:
            best = row.spread
            if not math.isfinite(best):
                points = [p.spread for p in row.curve if p.mean == row.best]
                best = points[0] if points else math.nan
            if math.isfinite(best) and best > 0:
                spreads.append(best * metric.scale)
    spread = sorted(spreads)[len(spreads) // 2] if spreads else _of_the_size(study)
    digits = min(max(1 - math.floor(math.log10(spread)), 0), MOST_DIGITS)
    if metric.images:
        # No more digits than one image has.
        step = metric.scale / metric.images
        digits = min(digits, max(0, -math.floor(math.log10(step))))
    return MetricDisplay(metric.name, metric.scale, metric.unit, metric.higher_is_better, digits)


def _of_the_size(study: CheckedStudy) -> float:
    """Return a hundredth of the values, where no spread is known."""
    for record in study.records:
        if record.value:
            return abs(record.value) * study.header.metric.scale / 100
    return 0.01
