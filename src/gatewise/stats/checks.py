"""Checks of arguments, so that wrong input gives one clear line."""

import math
from numbers import Integral, Real
from typing import Any

from gatewise.errors import ArgumentError


def is_number(value: Any) -> bool:
    """Return whether a value is a real number; truth values are not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_number(
    value: Any, name: str, *, least: float = -math.inf, above: float = -math.inf
) -> None:
    """Raise unless ``value`` is a finite number in its range.

    Args:
        value: The argument.
        name: Its name in the message.
        least: The smallest value allowed.
        above: Values must be larger than this.
    """
    if is_number(value) and math.isfinite(value) and value >= least and value > above:
        return
    allowed = "a finite number"
    if least > -math.inf:
        allowed = f"a finite number >= {least:g}"
    elif above > -math.inf:
        allowed = f"a finite number > {above:g}"
    raise ArgumentError(f"{name} is out of range", got=value, allowed=allowed)


def check_level(value: Any, name: str) -> None:
    """Raise unless ``value`` is a probability within (0, 1)."""
    if not (is_number(value) and 0 < value < 1):
        raise ArgumentError(f"{name} is out of range", got=value, allowed="a number within (0, 1)")


def check_whole(value: Any, name: str, *, least: int) -> None:
    """Raise unless ``value`` is a whole number of at least ``least``."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or int(value) < least:
        raise ArgumentError(
            f"{name} is out of range", got=value, allowed=f"a whole number >= {least}"
        )
