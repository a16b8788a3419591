"""Find the width at which a network costs as much as another.

Parameters or operations within one per cent.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from numbers import Integral, Real
from typing import Any

import torch
from torch import nn

from gatewise.errors import ArgumentError, unknown_name
from gatewise.graph import Example, find_sites, parameter_count
from gatewise.surgery.propagate import operations
from gatewise.surgery.tools.nearest_width import WrongFactoryError, nearest_width

BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
SEVERAL = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
BUDGETS = ("parameters", "flops")


@dataclass(frozen=True)
class Match:
    """What :func:`match` found.

    ``factory(**{option: value})`` costs ``got``, where ``target`` was asked for.
    """

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

    Args: factory: builds the network, called as ``factory(**{option: value})``. target: a number of
        parameters or operations, or a model to be counted. example: what both models are run on;
        needed to count operations, each element of an activation being one. by: ``"parameters"`` or
        ``"flops"``. option: the factory's own name for its width. between: the values to search,
        from 0 on; where both are whole
            numbers, only whole numbers are tried.
        tolerance: the largest relative error allowed; if no width comes that near, that is an error
            that names the nearest.

    Costs are taken to grow with the width. Networks are built on the device ``meta`` to count their
    parameters, where their factories allow it.

    >>> match(lambda width: nn.Linear(10, width), 110, option="width", between=(1, 100)).value
    10
    """
    if by not in BUDGETS:
        raise unknown_name("budget", by, BUDGETS)
    if by == "flops" and example is None:
        raise ArgumentError(
            "match: counting operations takes an example",
            fix="match(factory, target, example, ...)",
        )
    low, high = _range(between)
    if not 0 <= _number(tolerance) < math.inf:
        raise ArgumentError(
            "match: tolerance is no share", got=tolerance, allowed="0 or more, such as 0.01"
        )
    wanted = cost(target, by, example) if isinstance(target, nn.Module) else _number(target)
    if not isinstance(wanted, int) or wanted < 1:
        raise ArgumentError(
            "match: target is no number of parameters or operations, and no model", got=target
        )
    _check_option(factory, option)
    found = nearest_width(
        lambda value: _cost_at(factory, option, value, by, example), wanted, low, high
    )
    made = Match(option, found[0], by, wanted, found[1])
    if abs(made.error) > tolerance:
        raise ArgumentError(
            f"match: no {option} between {low:g} and {high:g} comes within {tolerance:.1%}",
            got=f"nearest is {made}",
            fix="a wider range, or a larger tolerance",
        )
    return made


def _range(between: object) -> tuple[float, float]:
    """Both ends of ``between`` as Python's own numbers."""
    ends = [_number(each) for each in between] if isinstance(between, Sequence) else []
    if len(ends) != 2 or not 0 <= ends[0] < ends[1] < math.inf:
        raise ArgumentError(
            "match: between is no range",
            got=between,
            allowed="two numbers from 0 on, the smaller first",
        )
    return ends[0], ends[1]


def _number(value: object) -> float:
    """``value`` as Python's own number, a whole one as such: numpy's are taken.

    NaN for what is none.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    return int(value) if isinstance(value, Integral) else float(value)


def _check_option(factory: Callable[..., nn.Module], option: str) -> None:
    """An error, if ``factory`` says that it cannot be called with ``option`` alone."""
    if not callable(factory):
        raise ArgumentError(
            "match: factory cannot be called", got=factory, fix="pass a function of the width"
        )
    try:
        parameters = signature(factory).parameters
    except ValueError:
        return  # it does not say
    named = {name: each for name, each in parameters.items() if each.kind in BY_NAME}
    if option not in named and not any(
        each.kind is Parameter.VAR_KEYWORD for each in parameters.values()
    ):
        raise unknown_name("option in the factory", option, named)
    single = {name: each for name, each in parameters.items() if each.kind not in SEVERAL}
    if lacking := [
        name for name, each in single.items() if each.default is Parameter.empty and name != option
    ]:
        raise ArgumentError(
            "match: the factory takes more than its width",
            got=f"no value for {', '.join(lacking)}",
            fix=f"give the others theirs: lambda {option}: ...",
        )


def cost(model: nn.Module, by: str, example: Example | None) -> int:
    """Parameters of ``model``, or operations of one run on ``example``."""
    if by == "parameters":
        return parameter_count(model)
    if example is None:
        raise ArgumentError("match: counting operations takes an example")
    return operations(find_sites(model, example, modes=("eval",)).readings["eval"].graph)


def _cost_at(
    factory: Callable[..., nn.Module], option: str, value: float, by: str, example: Example | None
) -> int:
    if by == "flops":
        model = _build(factory, option, value)
        try:
            return cost(model, by, example)
        except (
            ArgumentError
        ) as problem:  # an example that does not fit, or code that cannot be read
            raise WrongFactoryError(
                f"match: operations cannot be counted at {option}={value!r} ({problem})"
            ) from problem
    try:
        with torch.device("meta"):
            return parameter_count(_build(factory, option, value))
    except (NotImplementedError, RuntimeError):  # a factory that looks at its numbers
        return parameter_count(_build(factory, option, value))


def _build(factory: Callable[..., nn.Module], option: str, value: float) -> nn.Module:
    try:
        model: Any = factory(**{option: value})
    except (
        TypeError
    ) as problem:  # a name or a kind of number that it does not take: no other width would do
        raise WrongFactoryError(
            f"match: the factory cannot be called ({problem})",
            got=f"{option}={value!r}",
            fix="option= is the factory's own name for its width; between=(8, 512) tries whole numbers only",
        ) from problem
    if not isinstance(model, nn.Module):
        raise WrongFactoryError(
            "match: factory gives no model", got=type(model).__name__, allowed="a torch.nn.Module"
        )
    return model
