"""Axes: linear and logarithmic scales, round ticks and their labels, and lines as SVG paths."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gatewise.report.charts.records import Point
from gatewise.words import MINUS, number


@dataclass(frozen=True)
class Tick:
    """A labelled grid line at ``value``, ``at`` pixels from the left or the top of the field."""

    value: float
    at: float
    label: str

    @property
    def zero(self) -> bool:
        """Whether this is the line at zero of a numeric axis."""
        return self.value == 0


@dataclass(frozen=True)
class Scale:
    """A range of numbers, laid over ``pixels`` pixels.

    Args:
        low: The low end of the range.
        high: The high end of the range.
        pixels: The length of the axis.
        down: Whether pixels count from the high end, as on a vertical axis.
        log: Whether equal factors have equal lengths.
    """

    low: float
    high: float
    pixels: float
    down: bool = False
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the pixel of ``value``, to two decimals."""
        part = self.part(value)
        return round(self.pixels * (1 - part if self.down else part), 2)

    def part(self, value: float) -> float:
        """Return how far along the range ``value`` is: 0 at the low end, 1 at the high end."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def has(self, value: float) -> bool:
        """Return whether ``value`` can be drawn at all, inside the range or not."""
        return math.isfinite(value) and (value > 0 or not self.log)


def scale(
    values: Sequence[float],
    pixels: float,
    *,
    down: bool = False,
    log: bool = False,
    margin: float = 0.0,
) -> Scale:
    """Return a scale that has room for ``values``.

    Args:
        values: The numbers to show. Those that cannot be drawn are ignored.
        pixels: The length of the axis.
        down: Whether pixels count from the high end.
        log: Whether the scale is logarithmic.
        margin: Extra room at both ends, as a fraction of the range.
    """
    kept = [v for v in values if math.isfinite(v) and (v > 0 or not log)] or [1.0]
    low = min(kept)
    high = max(kept)
    if log:
        if low == high:
            low, high = low / 2, high * 2
        factor = (high / low) ** margin
        return Scale(low / factor, high * factor, pixels, down, log=True)
    if low == high:
        room = abs(low) * 0.05 or 0.5
        low, high = low - room, high + room
    room = margin * (high - low)
    return Scale(low - room, high + room, pixels, down)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round numbers from ``low`` to ``high``.

    The step is 1, 2 or 5 times a power of ten: the one whose count is closest to ``about``.
    """
    width = high - low
    power = 10.0 ** math.floor(math.log10(width / about))
    step = min((m * power for m in (1, 2, 5, 10)), key=lambda size: abs(width / size - about))
    # The small allowance keeps an end that rounding has moved by less than a billionth of a step.
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def log_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round numbers between two positive numbers on a logarithmic axis.

    Powers of ten; 2 and 5 times those if that gives no more than twice as many as asked for;
    linear ticks if the range is very short.
    """
    decades = math.log10(high / low)
    if decades < 0.7:
        return [value for value in ticks(low, high, about) if value > 0]
    every = math.ceil(decades / (1.5 * about))
    factors = (1, 2, 5) if decades < about / 2 else (1,)
    values = []
    for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        if power % every == 0:
            values += [factor * 10.0**power for factor in factors]
    return [v for v in values if low * (1 - 1e-9) <= v <= high * (1 + 1e-9)]


def grid(scale: Scale, about: int = 5) -> tuple[Tick, ...]:
    """Return the labelled grid lines of a scale."""
    values = (log_ticks if scale.log else ticks)(scale.low, scale.high, about)
    return tuple(Tick(value, scale(value), tick_label(value)) for value in values)


def tick_label(value: float) -> str:
    """Return ``value`` with as many digits as it has: ``0.9725``, ``12,000``, ``1e6``."""
    if 1000 <= abs(value) < 1e6 and value == int(value):
        return f"{int(value):,}".replace("-", MINUS)
    for digits in range(3, 17):
        if math.isclose(float(f"{value:.{digits}g}"), value, rel_tol=1e-15):
            return number(value, digits)
    return number(value, 17)


def path(points: Sequence[Point], x: Scale, y: Scale) -> str:
    """Return an SVG path through ``points``, broken at points that cannot be drawn.

    A point far outside the field is moved to nine times its height, so that numbers stay short.
    """
    parts = []
    pen = "M"
    for px, py in points:
        if not (x.has(px) and y.has(py)):
            pen = "M"
            continue
        top = min(max(y(py), -9 * y.pixels), 9 * y.pixels)
        parts.append(f"{pen}{x(px):g} {top:g}")
        pen = "L"
    return "".join(parts)
