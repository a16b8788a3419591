"""Expressions of one element: what a traced function computes, and its derivatives.

Equal expressions are one object, so nothing is computed twice.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

CONDITIONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not"})


@dataclass(frozen=True, eq=False, slots=True)
class Expression:
    """One operation on other expressions.

    Attributes:
        operation: its name. ``input`` and ``constant`` have no operands.
        operands: other expressions.
        value: of a constant, or the position of an input.
    """

    operation: str
    operands: tuple["Expression", ...] = ()
    value: float = 0.0

    @property
    def is_condition(self) -> bool:
        """Whether it is true or false instead of a number."""
        return self.operation in CONDITIONS

    def equals(self, number: float) -> bool:
        """Return whether it is this constant."""
        return self.operation == "constant" and self.value == number


@lru_cache(maxsize=1 << 16)
def _shared(operation: str, operands: tuple[Expression, ...], value: Any) -> Expression:
    return Expression(operation, operands, float(value) if operation != "constant" else value[0])


def constant(value: float) -> Expression:
    """Return a constant."""
    # 0.0 and -0.0 are equal, but not the same constant.
    return _shared("constant", (), (float(value), math.copysign(1.0, value)))


def read_input(position: int) -> Expression:
    """Return an input of the function: 0 is the element, the others are numbers."""
    return _shared("input", (), position)


def apply(operation: str, *operands: Expression) -> Expression:
    """Return an operation on expressions, simplified where no value changes."""
    simpler = _SIMPLER.get(operation)
    if simpler is not None:
        result = simpler(*operands)
        if result is not None:
            return result
    return _shared(operation, operands, 0.0)


def choose(condition: Expression, first: Expression, second: Expression) -> Expression:
    """Return ``first`` where the condition holds, else ``second``."""
    return apply("where", condition, first, second)


def total(*terms: Expression) -> Expression:
    """Return a sum."""
    result = terms[0]
    for term in terms[1:]:
        result = apply("add", result, term)
    return result


ZERO = constant(0.0)
ONE = constant(1.0)


def _values(*operands: Expression) -> tuple[float, ...] | None:
    if all(operand.operation == "constant" for operand in operands):
        return tuple(operand.value for operand in operands)
    return None


def _simpler_add(a: Expression, b: Expression) -> Expression | None:
    numbers = _values(a, b)
    if numbers:
        return constant(numbers[0] + numbers[1])
    if a.equals(0.0):
        return b
    if b.equals(0.0):
        return a
    if b.operation == "neg":
        return apply("sub", a, b.operands[0])
    if a.operation == "neg":
        return apply("sub", b, a.operands[0])
    return _joined("add", a, b)


def _joined(operation: str, a: Expression, b: Expression) -> Expression | None:
    """Return one choice for the sum or difference of two, if by one condition one of them is 0."""
    if a.operation != "where" or b.operation != "where" or a.operands[0] is not b.operands[0]:
        return None
    condition, *firsts = a.operands
    seconds = b.operands[1:]
    for one, other in zip(firsts, seconds, strict=True):
        if not (one.equals(0.0) or other.equals(0.0)):
            return None
    return choose(
        condition,
        apply(operation, firsts[0], seconds[0]),
        apply(operation, firsts[1], seconds[1]),
    )


def _simpler_sub(a: Expression, b: Expression) -> Expression | None:
    numbers = _values(a, b)
    if numbers:
        return constant(numbers[0] - numbers[1])
    if b.equals(0.0):
        return a
    if a.equals(0.0):
        return apply("neg", b)
    if b.operation == "neg":
        return apply("add", a, b.operands[0])
    return _joined("sub", a, b)


def _simpler_mul(a: Expression, b: Expression) -> Expression | None:
    numbers = _values(a, b)
    if numbers:
        return constant(numbers[0] * numbers[1])
    for one, other in ((a, b), (b, a)):
        if one.equals(1.0):
            return other
        if one.equals(-1.0):
            return apply("neg", other)
        if one.operation == "neg":
            return apply("neg", apply("mul", one.operands[0], other))
        mask = _mask_of(one)
        if mask is not None:
            condition, kept, inverted = mask
            product = apply("mul", kept, other)
            return choose(condition, *((ZERO, product) if inverted else (product, ZERO)))
    return None


def _mask_of(expression: Expression) -> tuple[Expression, Expression, bool] | None:
    """Return condition and constant of a choice between a constant and 0."""
    if expression.operation != "where":
        return None
    condition, first, second = expression.operands
    if second.equals(0.0) and first.operation == "constant":
        return condition, first, False
    if first.equals(0.0) and second.operation == "constant":
        return condition, second, True
    return None


def _simpler_div(a: Expression, b: Expression) -> Expression | None:
    if b.equals(1.0):
        return a
    numbers = _values(a, b)
    if numbers and numbers[1]:
        return constant(numbers[0] / numbers[1])
    if a.operation == "neg":
        return apply("neg", apply("div", a.operands[0], b))
    mask = _mask_of(a)
    if mask is not None:
        condition, kept, inverted = mask
        ratio = apply("div", kept, b)
        return choose(condition, *((ZERO, ratio) if inverted else (ratio, ZERO)))
    return None


def _simpler_neg(a: Expression) -> Expression | None:
    if a.operation == "constant":
        return constant(-a.value)
    if a.operation == "neg":
        return a.operands[0]
    mask = _mask_of(a)
    if mask is not None:
        _, first, second = a.operands
        return choose(a.operands[0], apply("neg", first), apply("neg", second))
    return None


def _simpler_where(c: Expression, a: Expression, b: Expression) -> Expression | None:
    if a is b:
        return a
    # A choice within a choice by the same condition.
    if a.operation == "where" and a.operands[0] is c:
        return choose(c, a.operands[1], b)
    if b.operation == "where" and b.operands[0] is c:
        return choose(c, a, b.operands[2])
    return None


def _simpler_detach(a: Expression) -> Expression | None:
    return a if a.operation == "constant" or a.is_condition else None


_SIMPLER: dict[str, Callable[..., Expression | None]] = {
    "add": _simpler_add,
    "sub": _simpler_sub,
    "mul": _simpler_mul,
    "div": _simpler_div,
    "neg": _simpler_neg,
    "where": _simpler_where,
    "detach": _simpler_detach,
}


def in_order(*results: Expression) -> list[Expression]:
    """Return all expressions that the results need, operands first."""
    order: list[Expression] = []
    seen: set[Expression] = set()
    stack = [(result, False) for result in reversed(results)]
    while stack:
        expression, is_ready = stack.pop()
        if is_ready:
            order.append(expression)
        elif expression not in seen:
            seen.add(expression)
            stack.append((expression, True))
            stack += [(operand, False) for operand in reversed(expression.operands)]
    return order


def without_detach(*results: Expression) -> list[Expression]:
    """Return the results without the marks that stop derivatives, simplified again."""
    replaced: dict[Expression, Expression] = {}
    for expression in in_order(*results):
        operands = [replaced[operand] for operand in expression.operands]
        if expression.operation == "detach":
            replaced[expression] = operands[0]
        elif expression.operation == "where" and _is_minus_magnitude(*operands):
            replaced[expression] = apply("neg", apply("abs", operands[0].operands[0]))
        elif operands:
            replaced[expression] = apply(expression.operation, *operands)
        else:
            replaced[expression] = expression
    return [replaced[result] for result in results]


def _is_minus_magnitude(condition: Expression, first: Expression, second: Expression) -> bool:
    """Return whether a choice is ``-x`` where ``x >= 0``, else ``x``."""
    if condition.operation != "ge" or not condition.operands[1].equals(0.0):
        return False
    return second is condition.operands[0] and first is apply("neg", second)


def is_negative_or_zero(expression: Expression) -> bool:
    """Return whether the value is at most 0, or NaN, for every input.

    Known forms: minus a magnitude or a square, the smaller of ``x`` and ``-x``, and products of
    these with positive constants.
    """
    operation, operands = expression.operation, expression.operands
    if operation == "constant":
        return expression.value <= 0
    if operation == "neg":
        return _is_positive_or_zero(operands[0])
    if operation == "mul":
        first, second = operands
        return (_is_positive_or_zero(first) and is_negative_or_zero(second)) or (
            is_negative_or_zero(first) and _is_positive_or_zero(second)
        )
    return operation == "where" and _picks_negative(*operands)


def _picks_negative(condition: Expression, first: Expression, second: Expression) -> bool:
    if is_negative_or_zero(first) and is_negative_or_zero(second):
        return True
    # Where a < b: a - b.
    is_difference = first.operation == "sub" and first.operands == condition.operands
    if condition.operation == "lt" and is_difference and is_negative_or_zero(second):
        return True
    if condition.operation not in ("gt", "ge", "lt", "le") or not condition.operands[1].equals(0.0):
        return False
    x = condition.operands[0]
    if condition.operation in ("lt", "le"):
        first, second = second, first
    # Above 0 `first`, else `second`.
    return (second is x or is_negative_or_zero(second)) and (
        first is apply("neg", x) or is_negative_or_zero(first)
    )


def _is_positive_or_zero(expression: Expression) -> bool:
    operation, operands = expression.operation, expression.operands
    if operation == "constant":
        return expression.value >= 0
    if operation == "mul":
        return operands[0] is operands[1] or all(map(_is_positive_or_zero, operands))
    return operation in ("abs", "exp", "sqrt")


def is_unit_interval(expression: Expression) -> bool:
    """Return whether the value lies between 0 and 1, or is NaN, for every input."""
    return expression.operation == "exp" and is_negative_or_zero(expression.operands[0])
