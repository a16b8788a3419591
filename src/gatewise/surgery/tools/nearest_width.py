"""The width whose cost is nearest to a number, among those that a factory takes."""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from gatewise.errors import ArgumentError

STEPS, GRID = (
    60,
    256,
)  # halvings of the range, and how many numbers of each kind are looked at in it
MOST = 1 << 16  # whole numbers asked for before it is said that the factory takes none
FINEST = 1e-6  # relative: widths nearer than this are the same
REFUSALS = (
    ValueError,
    AssertionError,
    ZeroDivisionError,
)  # of a width; ours are the first, torch has the second, too


class WrongFactoryError(ArgumentError):
    """What is wrong with a factory or its example at every width, so that no other is tried."""


def nearest_width(
    cost_at: Callable[[float], int], wanted: int, low: float, high: float
) -> tuple[float, int]:
    """The value whose cost is nearest to ``wanted``, and that cost.

    Costs do not fall as values grow.

    The range is halved. Values that the factory refuses (odd widths that it has to halve, say) are
    passed over: of whole numbers none is left out, of others those that people write are tried
    besides evenly spaced ones.
    """
    tried: dict[float, int] = {}
    low = _first_accepted(cost_at, tried, _values(low, high, low))
    high = _first_accepted(cost_at, tried, _values(low, high, high))
    for _ in range(STEPS):
        if (
            tried[low] >= wanted
            or tried[high] <= wanted
            or abs(_best(tried, wanted)[1] - wanted) < 1
        ):
            break
        inside = (value for value in _values(low, high, (low + high) / 2) if low < value < high)
        try:
            middle = _first_accepted(cost_at, tried, inside)
        except ArgumentError:
            break
        low, high = (middle, high) if tried[middle] <= wanted else (low, middle)
        if isinstance(low, float) and (tried[low] == tried[high] or high - low < FINEST * high):
            break
    return _best(tried, wanted)


def _first_accepted(
    cost_at: Callable[[float], int], tried: dict[float, int], values: Iterable[float]
) -> float:
    problem, count = None, 0
    for count, value in enumerate(islice(values, MOST), 1):  # noqa: B007  counts those refused
        try:
            tried[value] = tried[value] if value in tried else cost_at(value)
            return value
        except WrongFactoryError:
            raise
        except REFUSALS as refused:
            problem = refused
    raise ArgumentError(
        f"match: the factory takes none of the {count} widths tried ({problem})"
    ) from problem


def _values(low: float, high: float, start: float) -> Iterable[float]:
    """From ``low`` to ``high``, those near ``start`` first: all whole numbers where both are.

    Else some.
    """
    if isinstance(low, int) and isinstance(high, int):
        return _whole_numbers(low, high, round(start))
    even = (low + (high - low) * place / GRID for place in range(GRID + 1))
    return sorted(
        {*even, *_round_numbers(low, high, 2), *_round_numbers(low, high, 10)},
        key=lambda x: abs(x - start),
    )


def _whole_numbers(low: int, high: int, start: int) -> Iterator[int]:
    for distance in range(high - low + 1):
        yield from (each for each in {start - distance, start + distance} if low <= each <= high)


def _round_numbers(low: float, high: float, base: int) -> Iterator[float]:
    """Multiples of a power of ``base``: eighths, or hundredths, as fine as leaves not too many."""
    if not high > low:
        return
    power = math.floor(math.log(GRID / (high - low), base))
    parts, unit = (
        (base**power, 1) if power >= 0 else (1, base**-power)
    )  # one of them is 1, so that 0.3 is 3 / 10
    for count in range(math.ceil(low * parts / unit), math.floor(high * parts / unit) + 1):
        yield float(count * unit / parts)


def _best(tried: dict[float, int], wanted: int) -> tuple[float, int]:
    value = min(tried, key=lambda each: abs(tried[each] - wanted))
    return value, tried[value]
