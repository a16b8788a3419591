"""Checks of the options that networks share."""

import math
from collections.abc import Sequence

from gatewise.errors import ArgumentError
from gatewise.units import check_count


def check_sizes(model: str, **sizes: int) -> None:
    """Every one of these is a count of at least one."""
    for name, value in sizes.items():
        check_count(model, name, value, least=1)


def check_widths(model: str, widths: Sequence[int]) -> tuple[int, ...]:
    """``widths`` if they are one or more counts."""
    if isinstance(widths, str) or not isinstance(widths, Sequence) or not widths:
        raise ArgumentError(
            f"{model}: option widths is not allowed",
            got=widths,
            allowed="one or more counts: (16, 32)",
        )
    return tuple(check_count(model, "widths", width, least=1) for width in widths)


def check_scale(model: str, scale: float, width: int, *, name: str = "scale") -> int:
    """``width`` times ``scale``, rounded; at least one."""
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale < math.inf:
        raise ArgumentError(
            f"{model}: option {name} is not allowed", got=scale, allowed="a number > 0"
        )
    return max(1, round(width * scale))


def divisible(width: float, by: int = 8) -> int:
    """The multiple of ``by`` nearest to ``width``, but never less than nine tenths of it (MobileNet's rule)."""
    nearest = max(by, int(width + by / 2) // by * by)
    return nearest + by if nearest < 0.9 * width else nearest
