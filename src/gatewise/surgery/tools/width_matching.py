"""Find the width at which a network costs as much as another, within one per cent."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from itertools import islice
from numbers import Integral, Real
from typing import Any

import torch
from torch import nn

from gatewise.checks import check_number
from gatewise.errors import ArgumentError, unknown_name
from gatewise.graph import Example, parameter_count
from gatewise.surgery.propagate import BUDGETS, cost

BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
SEVERAL = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
MAX_HALVINGS = 60  # of the search range
GRID = 256  # evenly spaced values in a range, and the limit of round numbers in it
MAX_REFUSED = 1 << 16  # whole numbers to try before the search gives up
FINEST = 1e-6  # relative distance below which two widths are the same
# What factories raise for a width that they do not accept. Some of torch raises AssertionError.
REFUSED_WIDTH = (ValueError, AssertionError, ZeroDivisionError)


class WrongFactoryError(ArgumentError):
    """The factory or its example fails at every width, so no other width is tried."""


@dataclass(frozen=True)
class Match:
    """The result of :func:`match`: ``factory(**{option: value})`` costs ``got``.

    Attributes:
        option: The factory's width option.
        value: The value that was found.
        by: ``"parameters"`` or ``"flops"``.
        target: The cost that was asked for.
        got: The cost at ``value``.
    """

    option: str
    value: float
    by: str
    target: int
    got: int

    @property
    def error(self) -> float:
        """The difference from the target, relative to the target."""
        return self.got / self.target - 1

    def __str__(self) -> str:
        cost = f"{self.got:,} {self.by} for {self.target:,} ({self.error:+.2%})"
        return f"{self.option}={self.value:g}: {cost}"


def match(
    factory: Callable[..., nn.Module],
    target: int | nn.Module,
    example: Example | None = None,
    *,
    by: str = "parameters",
    option: str = "scale",
    between: tuple[float, float] = (0.05, 4.0),
    tolerance: float = 0.01,
) -> Match:
    """Find the value of a factory's width option at which its network costs as much as ``target``.

    The cost must not decrease with the width. To count parameters, networks are built on the
    ``meta`` device where the factory allows it.

    Args:
        factory: Builds the network, called as ``factory(**{option: value})``.
        target: A number of parameters or operations, or a model to count.
        example: The input that both models run on. Needed to count operations. One element of an
            activation counts as one operation.
        by: ``"parameters"`` or ``"flops"``.
        option: The name of the factory's width option.
        between: The smallest and largest value to try, from 0 on. If both are integers, only
            integers are tried.
        tolerance: The largest relative error.

    Raises:
        ArgumentError: No width is within the tolerance. The message names the closest.

    >>> match(lambda width: nn.Linear(10, width), 110, option="width", between=(1, 100)).value
    10
    """
    if by not in BUDGETS:
        raise unknown_name("budget", by, BUDGETS)
    if by == "flops" and example is None:
        raise ArgumentError(
            "match: counting operations needs an example input",
            got="no example",
            fix="match(factory, target, example, by='flops')",
        )
    low, high = _range(between)
    check_number("match", "tolerance", tolerance, least=0)
    wanted = cost(target, by, example) if isinstance(target, nn.Module) else _number(target)
    if not isinstance(wanted, int) or wanted < 1:
        raise ArgumentError(
            "match: target is neither a model nor a positive whole number", got=target
        )
    _check_option(factory, option)
    value, got = nearest_width(
        lambda value: _cost_at(factory, option, value, by, example), wanted, low, high
    )
    result = Match(option, value, by, wanted, got)
    if abs(result.error) > tolerance:
        raise ArgumentError(
            f"match: no {option} between {low:g} and {high:g} is within {tolerance:.1%}",
            got=f"closest is {result}",
            fix="use a wider range or a larger tolerance",
        )
    return result


def _range(between: object) -> tuple[float, float]:
    """Return both ends of ``between`` as Python numbers."""
    ends = [_number(end) for end in between] if isinstance(between, Sequence) else []
    if len(ends) != 2 or not 0 <= ends[0] < ends[1] < math.inf:
        raise ArgumentError(
            "match: between is not a range",
            got=between,
            allowed="two numbers from 0 on, the smaller first",
        )
    return ends[0], ends[1]


def _number(value: object) -> float:
    """Return a number, possibly of numpy, as a Python number. NaN if ``value`` is none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    return int(value) if isinstance(value, Integral) else float(value)


def _check_option(factory: Callable[..., nn.Module], option: str) -> None:
    """Raise an error if the signature of ``factory`` does not allow a call with ``option`` only."""
    if not callable(factory):
        raise ArgumentError(
            "match: factory cannot be called", got=factory, fix="pass a function of the width"
        )
    try:
        parameters = signature(factory).parameters
    except ValueError:
        return  # a built-in function without a signature
    kinds = [parameter.kind for parameter in parameters.values()]
    named = {name for name, parameter in parameters.items() if parameter.kind in BY_NAME}
    if option not in named and Parameter.VAR_KEYWORD not in kinds:
        raise unknown_name("option in the factory", option, named)
    missing = []
    for name, parameter in parameters.items():
        required = parameter.default is Parameter.empty and parameter.kind not in SEVERAL
        if required and name != option:
            missing.append(name)
    if missing:
        raise ArgumentError(
            "match: the factory needs more arguments than its width",
            got=f"no value for {', '.join(missing)}",
            fix=f"fix the others: lambda {option}: ...",
        )


def _cost_at(
    factory: Callable[..., nn.Module], option: str, value: float, by: str, example: Example | None
) -> int:
    """Return the cost of the factory's network at ``value``."""
    if by == "flops":
        model = _build(factory, option, value)
        try:
            return cost(model, by, example)
        except ArgumentError as problem:
            # The example does not fit, or the model's code cannot be read.
            raise WrongFactoryError(
                f"match: operations cannot be counted at {option}={value!r} ({problem})"
            ) from problem
    try:
        with torch.device("meta"):
            return parameter_count(_build(factory, option, value))
    except (NotImplementedError, RuntimeError):  # a factory that reads the values of its tensors
        return parameter_count(_build(factory, option, value))


def _build(factory: Callable[..., nn.Module], option: str, value: float) -> nn.Module:
    """Build the network. Errors that no other width would avoid become WrongFactoryError."""
    try:
        model: Any = factory(**{option: value})
    except TypeError as problem:
        # The factory does not accept the option or the type of number, whatever the width.
        raise WrongFactoryError(
            f"match: the factory cannot be called ({problem})",
            got=f"{option}={value!r}",
            fix="option= is the name of the factory's width option; between=(8, 512) tries only "
            "whole numbers",
        ) from problem
    if not isinstance(model, nn.Module):
        raise WrongFactoryError(
            "match: the factory does not return a model",
            got=type(model).__name__,
            allowed="a torch.nn.Module",
        )
    return model


def nearest_width(
    cost_at: Callable[[float], int], wanted: int, low: float, high: float
) -> tuple[float, int]:
    """Return the value whose cost is closest to ``wanted``, and that cost, by bisection.

    Values that the factory refuses are skipped, for example odd widths that it must halve. Between
    whole numbers, all whole numbers are candidates. Between other numbers, round numbers are tried
    besides evenly spaced ones.

    Args:
        cost_at: Returns the cost at a value. It must not decrease.
        wanted: The cost to find.
        low: The smallest value.
        high: The largest value.
    """
    tried: dict[float, int] = {}
    low = _first_accepted(cost_at, tried, _values(low, high, low))
    high = _first_accepted(cost_at, tried, _values(low, high, high))
    for _ in range(MAX_HALVINGS):
        if tried[low] >= wanted or tried[high] <= wanted or wanted in tried.values():
            break
        inside = (value for value in _values(low, high, (low + high) / 2) if low < value < high)
        try:
            middle = _first_accepted(cost_at, tried, inside)
        except ArgumentError:
            break  # no accepted value is left in the range
        if tried[middle] <= wanted:
            low = middle
        else:
            high = middle
        if isinstance(low, float) and (tried[low] == tried[high] or high - low < FINEST * high):
            break
    best = min(tried, key=lambda value: abs(tried[value] - wanted))
    return best, tried[best]


def _first_accepted(
    cost_at: Callable[[float], int], tried: dict[float, int], values: Iterable[float]
) -> float:
    """Return the first value that the factory accepts, and store its cost in ``tried``."""
    problem = None
    count = 0
    for value in islice(values, MAX_REFUSED):
        count += 1
        try:
            tried[value] = tried[value] if value in tried else cost_at(value)
            return value
        except WrongFactoryError:
            raise
        except REFUSED_WIDTH as refused:
            problem = refused
    raise ArgumentError(
        f"match: the factory accepts none of the {count} widths tried ({problem})"
    ) from problem


def _values(low: float, high: float, start: float) -> Iterable[float]:
    """Return candidates from ``low`` to ``high``, those closest to ``start`` first."""
    if isinstance(low, int) and isinstance(high, int):
        return _whole_numbers(low, high, round(start))
    even = (low + (high - low) * place / GRID for place in range(GRID + 1))
    values = {*even, *_round_numbers(low, high, 2), *_round_numbers(low, high, 10)}
    return sorted(values, key=lambda value: abs(value - start))


def _whole_numbers(low: int, high: int, start: int) -> Iterator[int]:
    """Yield whole numbers in order of their distance from ``start``."""
    for distance in range(high - low + 1):
        for number in {start - distance, start + distance}:
            if low <= number <= high:
                yield number


def _round_numbers(low: float, high: float, base: int) -> Iterator[float]:
    """Yield the multiples of a power of ``base``, for example of 1/8 or 1/100.

    The power is the smallest that gives at most about ``GRID`` numbers.
    """
    if not high > low:
        return
    power = math.floor(math.log(GRID / (high - low), base))
    # One of the two is 1, so that 0.3 is computed as 3 / 10.
    parts = base ** max(0, power)
    unit = base ** max(0, -power)
    for count in range(math.ceil(low * parts / unit), math.floor(high * parts / unit) + 1):
        yield float(count * unit / parts)
