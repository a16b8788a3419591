"""Derivatives of expressions, from the result back to the inputs."""

import math
from collections.abc import Callable

from gatewise.fused.expressions import (
    ONE,
    ZERO,
    Expression,
    apply,
    choose,
    constant,
    in_order,
    read_input,
    total,
)

Rule = Callable[..., tuple[Expression | None, ...]]


def derivatives(result: Expression, inputs: int) -> list[Expression]:
    """Return the derivative of ``result`` to each of its inputs, in order.

    Args:
        result: the expression of a function.
        inputs: how many inputs the function has.
    """
    slopes: dict[Expression, Expression] = {result: ONE}
    for expression in reversed(in_order(result)):
        slope = slopes.get(expression)
        if slope is None or expression.operation not in _RULES:
            continue
        parts = _RULES[expression.operation](slope, expression, *expression.operands)
        for operand, part in zip(expression.operands, parts, strict=True):
            if part is not None and not part.equals(0.0):
                slopes[operand] = total(slopes[operand], part) if operand in slopes else part
    return [slopes.get(read_input(position), ZERO) for position in range(inputs)]


def _bell(x: Expression, factor: float) -> Expression:
    """Return ``factor * exp(-x^2)``."""
    square = apply("mul", x, x)
    return apply("mul", constant(factor), apply("exp", apply("neg", square)))


def _add(s: Expression, *_: Expression) -> tuple[Expression, Expression]:
    return s, s


def _sub(s: Expression, *_: Expression) -> tuple[Expression, Expression]:
    return s, apply("neg", s)


def _mul(
    s: Expression,
    _: Expression,
    a: Expression,
    b: Expression,
) -> tuple[Expression, Expression]:
    return apply("mul", s, b), apply("mul", s, a)


def _div(
    s: Expression,
    y: Expression,
    _: Expression,
    b: Expression,
) -> tuple[Expression, Expression]:
    part = apply("div", s, b)
    return part, apply("neg", apply("mul", part, y))


def _abs(s: Expression, _: Expression, a: Expression) -> tuple[Expression]:
    falling = choose(apply("lt", a, ZERO), apply("neg", s), ZERO)
    return (choose(apply("gt", a, ZERO), s, falling),)


def _expm1(s: Expression, _: Expression, a: Expression) -> tuple[Expression]:
    return (apply("mul", s, apply("exp", a)),)


def _tanh(s: Expression, _: Expression, a: Expression) -> tuple[Expression]:
    # 1 - tanh^2 cancels where tanh is near 1.
    e = apply("exp", apply("mul", constant(-2.0), apply("abs", a)))
    whole = apply("add", ONE, e)
    return (
        apply("mul", s, apply("div", apply("mul", constant(4.0), e), apply("mul", whole, whole))),
    )


def _where(
    s: Expression,
    _: Expression,
    c: Expression,
    *__: Expression,
) -> tuple[Expression | None, ...]:
    return None, choose(c, s, ZERO), choose(c, ZERO, s)


_BELL = 2 / math.sqrt(math.pi)
_RULES: dict[str, Rule] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "neg": lambda s, y, a: (apply("neg", s),),
    "abs": _abs,
    "exp": lambda s, y, a: (apply("mul", s, y),),
    "expm1": _expm1,
    "log": lambda s, y, a: (apply("div", s, a),),
    "log1p": lambda s, y, a: (apply("div", s, apply("add", a, ONE)),),
    "sqrt": lambda s, y, a: (apply("div", s, apply("mul", constant(2.0), y)),),
    "erf": lambda s, y, a: (apply("mul", s, _bell(a, _BELL)),),
    "erfc": lambda s, y, a: (apply("mul", s, _bell(a, -_BELL)),),
    "tanh": _tanh,
    "where": _where,
}
