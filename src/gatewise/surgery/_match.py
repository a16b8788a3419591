"""Find the width at which a network costs as much as another: parameters or operations within one per cent."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from gatewise.errors import ArgumentError, unknown_name
from gatewise.sites._cost import parameter_count
from gatewise.sites._example import Example
from gatewise.sites._reading import read_model
from gatewise.surgery._cost import operations

BUDGETS = ("parameters", "flops")
STEPS, GRID = 60, 256  # halvings of the range, and values in it to choose from where the factory refuses some
FINEST = 1e-6  # relative: widths nearer than this are the same


@dataclass(frozen=True)
class Match:
    """What :func:`match` found: ``factory(**{option: value})`` costs ``got``, where ``target`` was asked for."""

    option: str
    value: float
    by: str
    target: int
    got: int

    @property
    def error(self) -> float:
        """How far off it is, relative to the target."""
        return self.got / self.target - 1

    def __str__(self) -> str:
        return f"{self.option}={self.value:g}: {self.got:,} {self.by} for {self.target:,} ({self.error:+.2%})"


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
    """The value of a factory's width option at which its network costs as much as ``target``.

    Args:
        factory: builds the network, called as ``factory(**{option: value})``.
        target: a number of parameters or operations, or a model to be counted.
        example: what both models are run on; needed to count operations, each element of an activation being one.
        by: ``"parameters"`` or ``"flops"``.
        option: the factory's own name for its width. between: the values to search; where both are whole numbers, only
            whole numbers are tried.
        tolerance: the largest relative error allowed; if no width comes that near, that is an error that names the
            nearest.

    Costs are taken to grow with the width. Networks are built on the device ``meta`` to count their parameters, where
    their factories allow it.

    >>> match(lambda width: nn.Linear(10, width), 110, option="width", between=(1, 100)).value
    10
    """
    if by not in BUDGETS:
        raise unknown_name("budget", by, BUDGETS)
    if by == "flops" and example is None:
        raise ArgumentError("match: counting operations takes an example", fix="match(factory, target, example, ...)")
    low, high = between
    if not -math.inf < low < high < math.inf:
        raise ArgumentError("match: between is no range", got=between, allowed="two numbers, the smaller first")
    if not 0 <= tolerance < math.inf:
        raise ArgumentError("match: tolerance is no share", got=tolerance, allowed="0 or more, such as 0.01")
    wanted = cost(target, by, example) if isinstance(target, nn.Module) else target
    if not isinstance(wanted, int) or wanted < 1:
        raise ArgumentError("match: target is no number of parameters or operations, and no model", got=target)
    found = _nearest(lambda value: _cost_at(factory, option, value, by, example), wanted, low, high)
    made = Match(option, found[0], by, wanted, found[1])
    if abs(made.error) > tolerance:
        raise ArgumentError(
            f"match: no {option} between {low:g} and {high:g} comes within {tolerance:.1%}", got=f"nearest is {made}",
            fix="a wider range, or a larger tolerance",
        )  # fmt: skip
    return made


def cost(model: nn.Module, by: str, example: Example | None) -> int:
    """Parameters of ``model``, or operations of one run on ``example``."""
    if by == "parameters":
        return parameter_count(model)
    if example is None:
        raise ArgumentError("match: counting operations takes an example")
    return operations(read_model(model, example, modes=("eval",)).readings["eval"].graph)


def _cost_at(factory: Callable[..., nn.Module], option: str, value: float, by: str, example: Example | None) -> int:
    if by == "flops":
        return cost(_build(factory, option, value), by, example)
    try:
        with torch.device("meta"):
            return parameter_count(_build(factory, option, value))
    except (NotImplementedError, RuntimeError):  # a factory that looks at its numbers
        return parameter_count(_build(factory, option, value))


def _build(factory: Callable[..., nn.Module], option: str, value: float) -> nn.Module:
    model: Any = factory(**{option: value})
    if not isinstance(model, nn.Module):
        raise ArgumentError("match: factory gives no model", got=type(model).__name__, allowed="a torch.nn.Module")
    return model


def _nearest(cost_at: Callable[[float], int], wanted: int, low: float, high: float) -> tuple[float, int]:
    """The value whose cost is nearest to ``wanted``, by halving the range; costs do not fall as values grow.

    Values that the factory refuses (odd widths that it has to halve, say) are passed over.
    """
    tried: dict[float, int] = {}
    low = _first_accepted(cost_at, tried, _between(low, high))
    high = _first_accepted(cost_at, tried, _between(low, high)[::-1])
    for _ in range(STEPS):
        if tried[low] >= wanted or tried[high] <= wanted or abs(_best(tried, wanted)[1] - wanted) < 1:
            break
        inside = [value for value in _between(low, high) if low < value < high]
        middle_first = sorted(inside, key=lambda value: abs(value - (low + high) / 2))
        try:
            middle = _first_accepted(cost_at, tried, middle_first)
        except ArgumentError:
            break
        low, high = (middle, high) if tried[middle] <= wanted else (low, middle)
        if isinstance(low, float) and (tried[low] == tried[high] or high - low < FINEST * high):
            break
    return _best(tried, wanted)


def _first_accepted(cost_at: Callable[[float], int], tried: dict[float, int], values: Sequence[float]) -> float:
    problem = None
    for value in values:
        try:
            tried[value] = tried[value] if value in tried else cost_at(value)
            return value
        except ValueError as refused:  # ours are too
            problem = refused
    raise ArgumentError(f"match: the factory takes none of the widths tried ({problem})") from problem


def _between(low: float, high: float) -> list[float]:
    """Some values from ``low`` to ``high``, whole numbers where these are."""
    if isinstance(low, int) and isinstance(high, int):
        step = max(1, (high - low) // GRID)
        return [*range(low, high, step), high]
    return [low + (high - low) * place / GRID for place in range(GRID + 1)]


def _best(tried: dict[float, int], wanted: int) -> tuple[float, int]:
    value = min(tried, key=lambda each: abs(tried[each] - wanted))
    return value, tried[value]
