"""Numbers and lists as text: one spelling for pages, the terminal and the sentences of findings."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import fields
from html import escape
from typing import Any, cast

MINUS = "\N{MINUS SIGN}"
SCREEN_LINES, SCREEN_COLUMNS = 40, 200
SMALLEST_DECIMAL = 1e-6  # smaller values are written with an exponent


def number(value: float | None, digits: int = 3) -> str:
    """Return ``value`` with ``digits`` significant digits: ``0.25``, ``1e6``, ``−∞``, ``NaN``.

    None gives an empty text.
    """
    if value is None:
        return ""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return f"{MINUS}∞" if value < 0 else "∞"
    mantissa, e, exponent = f"{value:.{digits}g}".partition("e")
    if e:
        mantissa += f"e{int(exponent)}"  # without the padding of Python: 1e-07 is 1e-7
    return mantissa.replace("-", MINUS)


def signed(value: float | None, decimals: int = 2, *, exact_zero: bool = False) -> str:
    """Return a difference with its sign: ``+1.09``, ``−0.07``, ``0.00``.

    None and NaN give an empty text.

    Args:
        value: The difference.
        decimals: Digits after the decimal point.
        exact_zero: Whether only zero itself may read as zero. Any other value then gets as many
            digits as it needs: ``+0.003``.
    """
    if value is None or math.isnan(value):
        return ""
    if math.isinf(value):
        return "+∞" if value > 0 else f"{MINUS}∞"
    if not float(f"{value:.{decimals}f}"):
        if exact_zero and value:
            return _small(value)
        return f"{0:.{decimals}f}"  # a value that rounds to zero has no sign to show
    return f"{value:+.{decimals}f}".replace("-", MINUS)


def _small(value: float) -> str:
    """Return a value near zero with one significant digit and its sign."""
    if abs(value) < SMALLEST_DECIMAL:
        return f"{'+' if value > 0 else ''}{number(value, 1)}"
    digits = -math.floor(math.log10(abs(value)))
    return f"{value:+.{digits}f}".replace("-", MINUS)


def rate(value: float) -> str:
    """Return a learning rate as people type it: ``3e-3``, ``0.1``, ``1.5``."""
    if value >= 0.1 or value <= 0:
        return f"{value:g}"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


def percentage(value: float) -> str:
    """Return a fraction of 1 in percent: ``3.1 %``, ``42 %``.

    A share between 0.05 % and 10 % has one decimal, any other none.
    """
    percent = 100 * value
    if 0.05 <= abs(percent) < 10:
        return f"{percent:.1f} %"
    return f"{percent:.0f} %"


def p_value(value: float | None) -> str:
    """Return ``0.014``, ``< 0.001`` or ``1``; None and NaN give an empty text."""
    if value is None or math.isnan(value):
        return ""
    if value < 0.001:
        return "< 0.001"
    return f"{value:.3f}" if value < 1 else "1"


def count(value: int) -> str:
    """Return ``value`` with commas between thousands: ``65,536``."""
    return f"{value:,}"


def plural(value: int, word: str) -> str:
    """Return a count with its noun: ``1 layer``, ``3 layers``."""
    return f"{value:,} {word}" if value == 1 else f"{value:,} {word}s"


def ulps(value: float | None) -> str:
    """Return an error in units in the last place; zero is ``exact``."""
    return "exact" if value == 0 else number(value)


def bound(steps: float, absolute: float) -> str:
    """Return an error bound, at most ``steps`` ulp or at most ``absolute``: ``2 ulp or 1e−7``.

    A part that is zero is left out; if both are zero the bound is ``exact``.
    """
    parts = []
    if steps:
        parts.append(f"{number(steps)} ulp")
    if absolute:
        parts.append(number(absolute))
    return " or ".join(parts) or "exact"


def join(names: Iterable[str], empty: str = "none") -> str:
    """Return ``a, b, c``, or ``empty`` if there are no names."""
    return ", ".join(names) or empty


def joined(names: Sequence[str], most: int = 3) -> str:
    """Return a list for a sentence: ``a, b and c``, or ``a, b and 4 more``.

    Args:
        names: The names to list. No name at all gives ``none``.
        most: The largest number of entries, counting ``4 more`` as one.
    """
    if not names:
        return "none"
    shown = list(names)
    if len(shown) > most:
        hidden = len(shown) - most + 1
        shown = [*shown[: most - 1], f"{hidden} more"]
    if len(shown) == 1:
        return shown[0]
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


class FitsScreen:
    """A result whose ``repr`` fits a screen. A notebook shows the same text.

    The text is that of ``str``, or the fields where a class has no text of its own.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__repr__ = cls.__repr__  # dataclasses keep a method that the class itself has

    def __repr__(self) -> str:
        if type(self).__str__ is not object.__str__:
            return first_screen(str(self))
        lines = [f"{type(self).__name__}("]
        for field in fields(cast(Any, self)):
            if field.repr:
                lines.append(f"  {field.name}={getattr(self, field.name)!r}")
        return first_screen("\n".join([*lines, ")"]))

    def _repr_html_(self) -> str:
        text = escape(repr(self))
        return f"<pre>{text}</pre>" if "\n" in text else f"<code>{text}</code>"


def first_screen(text: str) -> str:
    """Return the first lines of a text, each cut to the width of a screen."""
    lines = text.splitlines()
    if len(lines) > SCREEN_LINES:
        more = len(lines) - SCREEN_LINES + 1
        lines = [*lines[: SCREEN_LINES - 1], f"... {more:,} more lines: print() shows them"]
    return "\n".join(
        line if len(line) <= SCREEN_COLUMNS else f"{line[: SCREEN_COLUMNS - 1]}…" for line in lines
    )
