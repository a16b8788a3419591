"""Checks of arguments, so that wrong input gives one clear line."""

import functools
import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar

from gatewise.errors import ArgumentError, GatewiseError

P = ParamSpec("P")
R = TypeVar("R")
# What plain arithmetic on a few lists raises if they are not lists of numbers.
NOT_NUMBERS = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError)


def takes_numbers(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function of a few lines raise an ArgumentError where its input is not numbers."""

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except NOT_NUMBERS as problem:
            if isinstance(problem, GatewiseError):
                raise
            raise ArgumentError(
                f"{function.__name__}: a list of numbers is needed", got=args[0] if args else kwargs
            ) from problem

    return checked


def is_number(value: Any) -> bool:
    """Return whether a value is a real number; truth values are not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    """Return whether a value is a finite number that a float can hold."""
    try:
        return is_number(value) and math.isfinite(value)
    except OverflowError:
        return False


def check_number(
    value: Any,
    name: str,
    *,
    least: float = -math.inf,
    above: float = -math.inf,
) -> None:
    """Raise unless ``value`` is a finite number in its range.

    Args:
        value: The argument.
        name: Its name in the message.
        least: The smallest value allowed.
        above: Values must be larger than this.
    """
    if is_finite(value) and value >= least and value > above:
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
    if not whole or not least <= int(value) < 2**63:
        raise ArgumentError(
            f"{name} is out of range",
            got=value,
            allowed=f"a whole number >= {least}",
        )
