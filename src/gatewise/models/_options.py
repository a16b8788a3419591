"""Checks of the options that networks share."""

import math

from gatewise.errors import ArgumentError
from gatewise.units._module import check_count


def check_sizes(model: str, **sizes: int) -> None:
    """Every one of these is a count of at least one."""
    for name, value in sizes.items():
        check_count(model, name, value, least=1)


def check_scale(model: str, scale: float, width: int) -> int:
    """``width`` times ``scale``, rounded; at least one."""
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale < math.inf:
        raise ArgumentError(f"{model}: option scale is not allowed", got=scale, allowed="a number > 0")
    return max(1, round(width * scale))


def divisible(width: float, by: int = 8) -> int:
    """The multiple of ``by`` nearest to ``width``, but never less than nine tenths of it (MobileNet's rule)."""
    nearest = max(by, int(width + by / 2) // by * by)
    return nearest + by if nearest < 0.9 * width else nearest
