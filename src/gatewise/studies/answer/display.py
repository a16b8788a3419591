"""How a metric is shown: its name, its unit, and how many digits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gatewise.stats import standard_deviation
from gatewise.words import MINUS, signed

# Metrics that are shares of 1: shown in per cent, and their differences in points.
SHARES = (
    "accuracy",
    "acc",
    "balanced_accuracy",
    "top1",
    "top5",
    "precision",
    "recall",
    "f1",
    "f1_macro",
    "f1_micro",
    "auc",
    "auroc",
    "average_precision",
    "map",
    "iou",
    "miou",
    "dice",
)
POINT_DIGITS = 2
MOST_DIGITS = 10


@dataclass(frozen=True)
class Display:
    """How values and differences of one metric are written.

    Args:
        metric: Its name in the records.
        factor: What a recorded value is multiplied with: 100 for a share, else 1.
        higher_is_better: Whether larger values are better.
        digits: Digits after the decimal point.
    """

    metric: str
    factor: float
    higher_is_better: bool
    digits: int

    @property
    def name(self) -> str:
        """The name in words: ``test accuracy``."""
        return self.metric.replace("_", " ")

    @property
    def label(self) -> str:
        """The name of values: ``test accuracy in %``."""
        return f"{self.name} in %" if self.in_points else self.name

    @property
    def in_points(self) -> bool:
        """Whether values are shown in per cent, and differences in points."""
        return self.factor != 1

    @property
    def unit(self) -> str:
        """What follows a difference: `` points``, or nothing."""
        return " points" if self.in_points else ""

    def value(self, value: float) -> str:
        """Return a recorded value as text; ``-`` if it is not finite."""
        if not math.isfinite(value):
            return "-"
        return f"{self.factor * value:.{self.digits}f}".replace("-", MINUS)

    def size(self, difference: float) -> str:
        """Return the size of a difference with its unit: ``0.68 points``."""
        shown = signed(abs(self.factor * difference), self.digits, exact_zero=True)
        return f"{shown.removeprefix('+')}{self.unit}"

    def difference(self, difference: float) -> str:
        """Return a difference with its sign: ``+1.09``."""
        return signed(self.factor * difference, self.digits)

    def interval(self, ends: tuple[float, float]) -> str:
        """Return ``[+0.003, +0.89]``; empty if there is no interval.

        Only an end that is zero reads as zero.
        """
        if not all(map(math.isfinite, ends)):
            return ""
        low, high = (signed(self.factor * end, self.digits, exact_zero=True) for end in ends)
        return f"[{low}, {high}]"


def display_of(metric: str, higher_is_better: bool, values: Sequence[float]) -> Display:
    """Return how a metric is shown.

    Args:
        metric: Its name. A usual share (accuracy, F1, IoU) whose values are all from 0 to 1 is
            shown in per cent.
        higher_is_better: Whether larger values are better.
        values: All finite values there are.
    """
    from gatewise.train import bare_metric

    is_share = bare_metric(metric) in SHARES and all(0 <= value <= 1 for value in values)
    if is_share:
        return Display(metric, 100.0, higher_is_better, POINT_DIGITS)
    return Display(metric, 1.0, higher_is_better, _digits(values))


def _digits(values: Sequence[float]) -> int:
    """Return how many digits tell two runs apart: two significant ones of the spread."""
    spread = standard_deviation(list(values)) if len(values) > 1 else math.nan
    if not math.isfinite(spread) or spread == 0:
        spread = abs(values[0]) / 100 if values and values[0] else 0.01
    return min(max(1 - math.floor(math.log10(spread)), 0), MOST_DIGITS)
