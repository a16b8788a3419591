"""Leave out bounds and masks that change nothing, because a function is constant far out.

Note [Bounds]. Units bound their input before a gate and stop the gate's derivative beyond the
bound, so that no product overflows. The generated functions are constant far within that bound:
``exp`` of a negative number below -104, ``tanh`` beyond 104, ``erf`` and ``erfc`` beyond 20. They
take infinities too, so there the bound itself can be left out, and so can a second mask on a
derivative that is 0 beyond the bound already.
"""

import math
from functools import lru_cache

from gatewise.fused.expressions import Expression, apply, in_order, is_negative_or_zero

# From where on a function of elementwise.c is constant.
CONSTANT_FROM = {"exp": 104.0, "expm1": 104.0, "tanh": 104.0, "erf": 20.0, "erfc": 20.0}
NOT_ZERO = 1e-30  # a result this large at the bound is not rounded to 0
ONLY_NEGATIVE = ("exp", "expm1")
COMPARISONS = ("lt", "le", "gt", "ge")


def without_bounds(*results: Expression) -> list[Expression]:
    """Return the results without bounds and masks that change nothing. See Note [Bounds].

    Args:
        *results: expressions without marks that stop derivatives.
    """
    replaced: dict[Expression, Expression] = {}
    for expression in in_order(*results):
        operands = [replaced[operand] for operand in expression.operands]
        same = apply(expression.operation, *operands) if operands else expression
        replaced[expression] = _simpler(same)
    return [replaced[result] for result in results]


def _simpler(expression: Expression) -> Expression:
    """Return an expression, whose operands are simplified, without a needless bound or mask."""
    operation, operands = expression.operation, expression.operands
    if operation == "where":
        return _simpler_choice(expression)
    if operation in COMPARISONS and operands[1].equals(0.0):
        found = _unbounded(operands[0])
        if found is None or found[1] < NOT_ZERO:
            return expression
        return apply(operation, found[0], operands[1])
    if operation not in CONSTANT_FROM:
        return expression
    found = _unbounded(operands[0])
    if found is None or found[1] < CONSTANT_FROM[operation]:
        return expression
    if operation in ONLY_NEGATIVE and not is_negative_or_zero(found[0]):
        return expression
    return apply(operation, found[0])


def _simpler_choice(expression: Expression) -> Expression:
    """Return a choice of 0 without conditions that change nothing."""
    condition, first, second = expression.operands
    if not first.equals(0.0):
        return expression
    if _is_needless_mask(condition, second) or _is_only_at_zero(condition, second):
        return second
    if second.operation == "where" and second.operands[1].equals(0.0):
        inner, _, rest = second.operands
        if _is_infinite_and(inner, condition):
            return apply("where", condition, first, rest)
    return expression


def _is_only_at_zero(condition: Expression, value: Expression) -> bool:
    """Return whether a condition holds only where a value is 0."""
    if condition.operation == "and":
        return any(_is_only_at_zero(each, value) for each in condition.operands)
    return (
        condition.operation == "eq"
        and condition.operands[0] is value
        and (condition.operands[1].equals(0.0))
    )


def _is_infinite_and(condition: Expression, beyond: Expression) -> bool:
    """Return whether a condition holds only at infinities, and ``beyond`` is ``abs(x) > b``."""
    if condition.operation == "and":
        return any(_is_infinite_and(each, beyond) for each in condition.operands)
    if condition.operation != "eq" or not condition.operands[1].equals(math.inf):
        return False
    magnitude = condition.operands[0]
    is_magnitude = magnitude.operation == "abs"
    return is_magnitude and _holds_beyond(beyond, magnitude.operands[0], math.inf)


def _bounded_input(expression: Expression) -> tuple[Expression, float] | None:
    """Return ``x`` and ``b`` if an expression is ``x`` between ``-b`` and ``b``."""
    if expression.operation != "where":
        return None
    is_above, high, inner = expression.operands
    if is_above.operation != "gt" or inner.operation != "where":
        return None
    is_below, low, x = inner.operands
    if is_below.operation != "lt" or high.operation != "constant" or not low.equals(-high.value):
        return None
    if is_above.operands != (inner, high) or is_below.operands != (x, low):
        return None
    return (x, high.value) if high.value > 0 else None


def _unbounded(expression: Expression) -> tuple[Expression, float] | None:
    """Return an expression without the bound of its input, and its magnitude at the bound.

    Between the bound and the result may be signs, magnitudes, squares and constant factors.
    """
    found = _bounded_input(expression)
    if found is not None:
        return found
    operation, operands = expression.operation, expression.operands
    if operation in ("neg", "abs"):
        inner = _unbounded(operands[0])
        return None if inner is None else (apply(operation, inner[0]), inner[1])
    if operation != "mul":
        return None
    first, second = operands
    if first is second:
        inner = _unbounded(first)
        return None if inner is None else (apply("mul", inner[0], inner[0]), inner[1] ** 2)
    for factor, rest in ((first, second), (second, first)):
        if factor.operation == "constant" and factor.value and math.isfinite(factor.value):
            inner = _unbounded(rest)
            if inner is not None:
                return apply("mul", factor, inner[0]), abs(factor.value) * inner[1]
    return None


def _is_needless_mask(condition: Expression, value: Expression) -> bool:
    """Return whether a condition holds beyond a bound, where a value is 0 already."""
    if condition.operation not in ("lt", "gt"):
        return False
    x, limit = condition.operands
    if limit.operation != "constant":
        return False
    if condition.operation == "gt" and x.operation == "where":  # after the bound from below
        is_below, low, x = x.operands
        if is_below.operation != "lt" or is_below.operands[0] is not x:
            return False
        if not low.equals(-limit.value):
            return False
    bound = limit.value if condition.operation == "gt" else -limit.value
    return bound > 0 and _is_zero_beyond(value, x, bound)


@lru_cache(maxsize=1 << 14)
def _is_zero_beyond(expression: Expression, x: Expression, bound: float) -> bool:
    """Return whether an expression is 0 wherever the magnitude of ``x`` exceeds ``bound``."""
    operation, operands = expression.operation, expression.operands
    if operation == "constant":
        return expression.value == 0
    if operation == "where":
        condition, first, second = operands
        if first.equals(0.0) and _holds_beyond(condition, x, bound):
            return True
        return _is_zero_beyond(first, x, bound) and _is_zero_beyond(second, x, bound)
    if operation in ("neg", "add", "sub"):
        return all(_is_zero_beyond(operand, x, bound) for operand in operands)
    if operation not in ("mul", "div"):
        return False
    for factor, other in (operands, operands[::-1]) if operation == "mul" else (operands,):
        # Beyond the bound x is no NaN, but another input may be one.
        if _inputs(other) <= _inputs(x) and _is_zero_beyond(factor, x, bound):
            if _is_finite(other) if operation == "mul" else _is_at_least_one(other):
                return True
    return False


@lru_cache(maxsize=1 << 14)
def _inputs(expression: Expression) -> frozenset[float]:
    """Return the positions of the inputs that an expression depends on."""
    if expression.operation == "input":
        return frozenset({expression.value})
    return frozenset().union(*(_inputs(operand) for operand in expression.operands))


def _holds_beyond(condition: Expression, x: Expression, bound: float) -> bool:
    """Return whether a condition is ``abs(x) > b`` for a ``b`` up to ``bound``."""
    if condition.operation != "gt":
        return False
    magnitude, limit = condition.operands
    is_magnitude = magnitude.operation == "abs" and magnitude.operands[0] is x
    is_bound = limit.operation == "constant" and limit.value <= bound
    return is_magnitude and is_bound and limit.value < math.inf


@lru_cache(maxsize=1 << 14)
def _is_finite(expression: Expression) -> bool:
    """Return whether the value is a number of a moderate size for every input but NaN."""
    operation, operands = expression.operation, expression.operands
    if operation == "constant":
        return abs(expression.value) < 1e6
    if operation == "exp":
        return is_negative_or_zero(operands[0])
    if operation in ("erf", "erfc", "tanh"):
        return True
    if operation == "where":
        return all(map(_is_finite, operands[1:]))
    if operation == "div":
        return _is_finite(operands[0]) and _is_at_least_one(operands[1])
    return operation in ("neg", "mul") and all(map(_is_finite, operands))


def _is_at_least_one(expression: Expression) -> bool:
    """Return whether the value is 1 or more for every input but NaN."""
    if expression.operation == "constant":
        return 1 <= expression.value < math.inf
    if expression.operation != "add":
        return False
    first, second = expression.operands
    return any(
        _is_at_least_one(a) and b.operation == "exp" and is_negative_or_zero(b.operands[0])
        for a, b in ((first, second), (second, first))
    )
