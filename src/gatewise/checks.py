"""Checks of arguments, so that a wrong value raises one clear error.

Every check returns the value as a plain Python number, and names in its error who takes the
argument.
"""

import math
from collections.abc import Collection, Sequence
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from gatewise.errors import ArgumentError

Kind = TypeVar("Kind")
LARGEST_SIZE = 2**31 - 1  # of one dimension: some of torch's kernels count in 32 bits
LARGEST_COUNT = 2**63 - 1


def is_number(value: object) -> TypeGuard[float]:
    """Return whether ``value`` is a real number; booleans are not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_size(value: object, least: int, most: float = LARGEST_SIZE) -> TypeGuard[int]:
    """Return whether ``value`` is an integer from ``least`` to ``most``; booleans are not."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        return False
    return least <= int(value) <= most


def is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """Return whether ``value`` is a sequence other than text or bytes."""
    text = str | bytes | bytearray | memoryview
    return isinstance(value, Sequence) and not isinstance(value, text)


def check_number(
    owner: str,
    name: str,
    value: Any,
    *,
    least: float = -math.inf,
    above: float = -math.inf,
    most: float = math.inf,
    below: float = math.inf,
    fix: str | None = None,
) -> float:
    """Return ``value`` if it is a finite number in its range.

    Args:
        owner: who takes the argument.
        name: the argument's name.
        value: its value.
        least: the smallest value.
        above: values must be larger than this.
        most: the largest value.
        below: values must be smaller than this.
        fix: what to type instead.
    """
    number = _as_float(value)
    # torch.compile traces comparisons, and math.isfinite not.
    if -math.inf < number < math.inf and least <= number <= most and above < number < below:
        return number
    limits = []
    for sign, limit in ((">=", least), (">", above), ("<=", most), ("<", below)):
        if -math.inf < limit < math.inf:
            limits.append(f"{sign} {limit:g}")
    allowed = " ".join(("a finite number", " and ".join(limits))).rstrip()
    raise _not_allowed(owner, name, value, allowed, fix)


def check_count(
    owner: str,
    name: str,
    value: Any,
    *,
    least: int = 1,
    most: int = LARGEST_SIZE,
    fix: str | None = None,
) -> int:
    """Return ``value`` if it is an integer from ``least`` to ``most``.

    Args:
        owner: who takes the argument.
        name: the argument's name.
        value: its value.
        least: the smallest value.
        most: the largest value; by default the largest size of a tensor.
        fix: what to type instead.
    """
    if is_size(value, least, most):
        return int(value)
    allowed = f"an integer >= {least}"
    if most not in (LARGEST_SIZE, LARGEST_COUNT) or is_size(value, most):
        allowed += f" and <= {most}"
    raise _not_allowed(owner, name, value, allowed, fix)


def check_flag(owner: str, name: str, value: Any) -> bool:
    """Return ``value`` if it is True or False. A word in its place would count as true."""
    if not isinstance(value, bool):
        raise _not_allowed(owner, name, value, "True or False", None)
    return value


def check_choice(owner: str, name: str, value: Any, allowed: Collection[str]) -> str:
    """Return ``value`` if it is one of the words of ``allowed``."""
    if not isinstance(value, str) or value not in allowed:
        raise _not_allowed(owner, name, value, ", ".join(map(repr, allowed)), None)
    return value


def check_kind(owner: str, name: str, value: Any, kind: type[Kind]) -> Kind:
    """Return ``value`` if it is an instance of ``kind``."""
    if not isinstance(value, kind):
        raise _not_allowed(owner, name, value, f"an object of type {kind.__name__}", None)
    return value


def check_path(owner: str, name: str, value: Any) -> Path:
    """Return ``value`` as a path if it is text or a path."""
    if not isinstance(value, str | PathLike):
        raise _not_allowed(owner, name, value, "a path", None)
    return Path(value)


def _as_float(value: object) -> float:
    """Return a number as a float; NaN for what is no number or too large."""
    try:
        return float(value) if is_number(value) else math.nan
    except OverflowError:  # an integer of a thousand digits
        return math.nan


def _not_allowed(
    owner: str, name: str, value: object, allowed: str, fix: str | None
) -> ArgumentError:
    return ArgumentError(f"{owner}: {name} is not allowed", got=value, allowed=allowed, fix=fix)
