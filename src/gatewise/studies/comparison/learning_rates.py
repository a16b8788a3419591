"""The learning rates that a user asks for: equal ratios around the recipe's rate."""

import math
from typing import Any

from gatewise.checks import LARGEST_SIZE, check_number, is_sequence, is_size
from gatewise.errors import ArgumentError
from gatewise.stats import FEWEST_RATES, equal_ratios
from gatewise.studies.answer import RateGrid

RATES = 5
MOST = 15
LOWEST = 1e-10
ALLOWED = "a number of rates (1, or 4 to 15), or at least 4 rates at equal ratios"


def rate_grid(rates: Any, center: float) -> RateGrid:
    """Return the grid that a user asks for.

    Args:
        rates: how many, around ``center`` and half a decade apart; or the rates themselves.
        center: the learning rate of the recipe.

    Raises:
        ArgumentError: if there are 2 or 3 rates, or they are not at equal ratios.
    """
    if is_size(rates, -LARGEST_SIZE):
        _check_number_of_rates(rates, rates, "rates=5, or rates=1 to compare at one learning rate")
        return RateGrid(center=float(center), count=int(rates))
    if not is_sequence(rates):
        raise ArgumentError("rates: not understood", got=rates, allowed=ALLOWED)
    values = sorted(check_number("rates", "a rate", rate, least=LOWEST, most=1e6) for rate in rates)
    if len(set(values)) < len(values):
        raise ArgumentError("rates: one appears twice", got=list(rates), allowed=ALLOWED)
    if len(values) == 1:
        return RateGrid(center=values[0], count=1)
    _check_number_of_rates(len(values), list(rates), "rates=5, or four rates at equal ratios")
    ratio, fits = equal_ratios(values)
    center = math.sqrt(values[0] * values[-1])
    grid = RateGrid(center=center, ratio=ratio, count=len(values))
    if not fits:
        raise ArgumentError(
            "rates: the learning rates are not at equal ratios",
            got=list(rates),
            allowed="rates within 5 % of equal ratios",
            fix=f"rates={grid.rates}",
        )
    return grid


def _check_number_of_rates(count: int, given: Any, fix: str) -> None:
    """Raise if no curve can be drawn through so few rates, or there are too many."""
    if count != 1 and not FEWEST_RATES <= count <= MOST:
        raise ArgumentError(
            "rates: a curve needs four learning rates or more", got=given, allowed=ALLOWED, fix=fix
        )
