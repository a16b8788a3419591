"""The learning rates of a comparison: equal ratios around the recipe's rate."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from gatewise.checks import LARGEST_SIZE, check_number, is_sequence, is_size
from gatewise.errors import ArgumentError

RATES = 5
FEWEST = 4
MOST = 15
HALF_A_DECADE = 10**0.5
TOLERANCE = 0.05  # of a ratio between two rates, by which it may differ from the others
ALLOWED = "a number of rates (1, or 4 to 15), or at least 4 rates at equal ratios"


@dataclass(frozen=True)
class RateGrid:
    """Learning rates at equal ratios; ``step`` counts half steps from the middle.

    Attributes:
        center: the rate in the middle, at step 0.
        ratio: between two rates of the plan, two half steps apart.
        count: rates of the plan.
    """

    center: float
    ratio: float
    count: int

    def rate(self, step: int) -> float:
        """Return the rate at a number of half steps from the middle, to four digits."""
        return float(f"{self.center * self.ratio ** (step / 2):.4g}")

    @property
    def steps(self) -> tuple[int, ...]:
        """The half steps of the planned rates."""
        return tuple(range(1 - self.count, self.count, 2))

    @property
    def rates(self) -> tuple[float, ...]:
        """The planned rates."""
        return tuple(self.rate(step) for step in self.steps)


def rate_grid(rates: Any, center: float) -> RateGrid:
    """Return the grid that a user asks for.

    Args:
        rates: how many, around ``center`` and half a decade apart; or the rates themselves.
        center: the learning rate of the recipe.

    Raises:
        ArgumentError: if there are 2 or 3 rates, or they are not at equal ratios.
    """
    if is_size(rates, -LARGEST_SIZE):
        if rates != 1 and not FEWEST <= rates <= MOST:
            raise ArgumentError(
                "rates: a curve needs four learning rates or more",
                got=rates,
                allowed=ALLOWED,
                fix="rates=5, or rates=1 for a comparison at one learning rate",
            )
        return RateGrid(center, HALF_A_DECADE, rates)
    if not is_sequence(rates):
        raise ArgumentError("rates: not understood", got=rates, allowed=ALLOWED)
    values = [check_number("rates", "a learning rate", value, above=0) for value in rates]
    if len(values) == 1:
        return RateGrid(values[0], HALF_A_DECADE, 1)
    values.sort()
    if not FEWEST <= len(values) <= MOST or values[0] == values[-1]:
        raise ArgumentError(
            "rates: a curve needs four learning rates or more",
            got=list(rates),
            allowed=ALLOWED,
            fix=f"rates={_spread(values[0], max(values[-1], 10 * values[0]), FEWEST)}",
        )
    ratio = (values[-1] / values[0]) ** (1 / (len(values) - 1))
    for low, high in pairwise(values):
        if abs(high / low / ratio - 1) > TOLERANCE:
            raise ArgumentError(
                "rates: the learning rates are not at equal ratios",
                got=list(rates),
                allowed=f"ratios that differ by at most {TOLERANCE:.0%}",
                fix=f"rates={_spread(values[0], values[-1], len(values))}",
            )
    return RateGrid(math.sqrt(values[0] * values[-1]), ratio, len(values))


@dataclass(frozen=True)
class RunCounts:
    """How many runs a comparison takes.

    Attributes:
        racing: if all rates but the best and its neighbours are dropped after three seeds.
        planned: all units, rates and seeds.
        widened: if a rate is added at an end of the grid twice.
    """

    racing: int
    planned: int
    widened: int

    @property
    def words(self) -> str:
        """The range in words."""
        if self.racing == self.widened:
            return f"{self.planned} runs"
        return f"{self.racing} to {self.widened} runs, {self.planned} as planned"


def run_counts(units: int, rates: int, seeds: int) -> RunCounts:
    """Return the runs of a comparison with so many units, rates and seeds.

    Args:
        units: with the baseline.
        rates: of the plan.
        seeds: of every unit and rate.
    """
    first = min(seeds, 3)
    racing = units * (rates * first + min(rates, 3) * (seeds - first))
    wider = rates if rates == 1 else rates + 2
    return RunCounts(racing, units * rates * seeds, units * wider * seeds)


def _spread(low: float, high: float, count: int) -> list[float]:
    """Return rates at equal ratios."""
    ratio = (high / low) ** (1 / (count - 1))
    return [float(f"{low * ratio**place:.3g}") for place in range(count)]
