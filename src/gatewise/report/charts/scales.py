"""Numbers laid over a field of pixels.

Linear and logarithmic scales, round ticks and their labels, lines as paths.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gatewise.report.records import Point
from gatewise.report.words import MINUS, number


@dataclass(frozen=True)
class Tick:
    """A labelled grid line, ``at`` units from the left or the top of the inner field."""

    at: float
    label: str
    zero: bool


@dataclass(frozen=True)
class Scale:
    """A range of numbers laid over a number of pixels."""

    low: float
    high: float
    pixels: float
    down: bool = False
    log: bool = False

    def __call__(self, value: float) -> float:
        part = self.part(value)
        return round(self.pixels * (1 - part if self.down else part), 2)

    def part(self, value: float) -> float:
        """How far along the range ``value`` lies: 0 at the low end, 1 at the high one."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def has(self, value: float) -> bool:
        """Whether ``value`` has a place on this scale at all, inside the range or not."""
        return math.isfinite(value) and (value > 0 or not self.log)


def scale(
    values: Sequence[float],
    pixels: float,
    *,
    down: bool = False,
    log: bool = False,
    margin: float = 0.0,
) -> Scale:
    """A scale with room for ``values`` and, on both sides, for ``margin`` of their range."""
    kept = [v for v in values if math.isfinite(v) and (v > 0 or not log)] or [1.0]
    low, high = min(kept), max(kept)
    if log:
        if low == high:
            low, high = low / 2, high * 2
        factor = (high / low) ** margin
        return Scale(low / factor, high * factor, pixels, down, log=True)
    if low == high:
        low, high = low - (abs(low) * 0.05 or 0.5), high + (abs(high) * 0.05 or 0.5)
    room = margin * (high - low)
    return Scale(low - room, high + room, pixels, down)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers from ``low`` to ``high``.

    As near to ``about`` of them as steps of 1, 2 and 5 can come.
    """
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = min(
        (m * power for m in (1, 2, 5, 10)), key=lambda each: abs((high - low) / each - about)
    )
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def log_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Powers of ten between two positive numbers; 2 and 5 times them where those are few.

    In a narrow range any.
    """
    decades = math.log10(high / low)
    if decades < 0.7:
        return [v for v in ticks(low, high, about) if v > 0]
    every = math.ceil(decades / (1.5 * about))
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if decades < 2.5 else (1,)
    values = [m * 10.0**p for p in powers if p % every == 0 for m in factors]
    return [v for v in values if low * (1 - 1e-9) <= v <= high * (1 + 1e-9)]


def grid(scale: Scale, about: int = 5) -> tuple[Tick, ...]:
    """The labelled grid lines of a scale."""
    found = (log_ticks if scale.log else ticks)(scale.low, scale.high, about)
    return tuple(Tick(scale(v), tick_label(v), v == 0) for v in found)


def tick_label(value: float) -> str:
    """``value`` with as many digits as it takes to say it: ``0.9725``, ``12,000``, ``1e6``."""
    if 1000 <= abs(value) < 1e6 and value == int(value):
        return f"{int(value):,}".replace("-", MINUS)
    digits = next(
        (d for d in range(3, 17) if math.isclose(float(f"{value:.{d}g}"), value, rel_tol=1e-15)), 17
    )
    return number(value, digits)


def path(points: Sequence[Point], x: Scale, y: Scale) -> str:
    """An SVG path through ``points``, broken where y is not finite.

    Far outside the field it is cut off.
    """
    parts, pen = [], "M"
    for px, py in points:
        if not (x.has(px) and y.has(py)):
            pen = "M"
            continue
        drop = min(max(y(py), -9 * y.pixels), 9 * y.pixels)
        parts.append(f"{pen}{x(px):g} {drop:g}")
        pen = "L"
    return "".join(parts)
