"""Errors of short functions of numbers."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

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
