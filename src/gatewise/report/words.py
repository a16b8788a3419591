"""Numbers as people read them, the same on the page and in the terminal."""

import math

MINUS = "\N{MINUS SIGN}"


def number(value: float | None, digits: int = 3) -> str:
    """``value`` to ``digits`` significant digits: ``0.25``, ``1e6``, ``−∞``, ``NaN``.

    Nothing for None.
    """
    if value is None:
        return ""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return MINUS * (value < 0) + "∞"
    return _tidy(f"{value:.{digits}g}")


def signed(value: float | None, decimals: int = 2) -> str:
    """A difference, its sign always said: ``+1.09``, ``−0.07``, ``0.00``.

    Nothing for None or NaN.
    """
    if value is None or math.isnan(value):
        return ""
    if math.isfinite(value) and not float(f"{value:.{decimals}f}"):
        return f"{0:.{decimals}f}"  # a sign would say more than the digits know
    text = f"{value:+.{decimals}f}" if math.isfinite(value) else f"{value:+}".replace("inf", "∞")
    return text.replace("-", MINUS)


def p_value(value: float | None) -> str:
    """``0.014``, ``< 0.001``, ``1``; nothing for None."""
    if value is None or math.isnan(value):
        return ""
    return "< 0.001" if value < 0.001 else f"{value:.3f}" if value < 1 else "1"


def count(value: int) -> str:
    """``value`` with its thousands apart: ``65,536``."""
    return f"{value:,}"


def ulps(value: float | None) -> str:
    """An error in units in the last place; exact is said in a word."""
    return "exact" if value == 0 else number(value)


def bound(steps: float, absolute: float) -> str:
    """A promise, at most ``steps`` ulp or at most ``absolute``: ``2 ulp or 1e−7``.

    Both 0 is exact.
    """
    if not steps and not absolute:
        return "exact"
    parts = [f"{number(steps)} ulp"] * bool(steps) + [number(absolute)] * bool(absolute)
    return " or ".join(parts)


def join(names: tuple[str, ...] | list[str], empty: str = "none") -> str:
    """``a, b, c``, or ``empty``."""
    return ", ".join(names) or empty


def _tidy(text: str) -> str:
    """``-1e-07`` as ``−1e−7``."""
    mantissa, e, exponent = text.partition("e")
    tail = f"e{int(exponent)}" if e else ""
    return (mantissa + tail).replace("-", MINUS)
