"""The C source of a traced function: one loop for its values and two for its derivatives."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import torch

from gatewise.fused.derivatives import derivatives
from gatewise.fused.expressions import (
    Expression,
    in_order,
    is_negative_or_zero,
    is_unit_interval,
    without_detach,
)
from gatewise.fused.saturation import without_bounds
from gatewise.native import HERE

MARK = "/*@LOOPS@*/"
INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
    "and": "&",
    "or": "|",
}
_CALLS = {
    "abs": "absolute",
    "sqrt": "square_root",
    "exp": "exp_any",
    "expm1": "expm1_any",
    "log": "log_any",
    "log1p": "log1p_any",
    "erf": "erf_any",
    "erfc": "erfc_any",
    "tanh": "tanh_any",
}


class Loop(NamedTuple):
    """One loop of the source.

    Attributes:
        name: of the C function.
        needs_gradient: whether it reads the gradient of the output.
        results: the expressions that it stores, the output first.
    """

    name: str
    needs_gradient: bool
    results: Sequence[Expression]


def source_text(result: Expression, numbers: int) -> str:
    """Return the C source that computes ``result`` and its derivatives.

    Args:
        result: the traced function.
        numbers: how many numbers it has besides the element.
    """
    parts = [f"#define COUNT {numbers}"]
    for loop in loops_of(result, numbers):
        parts += [_function(loop, numbers, by_row=False), _function(loop, numbers, by_row=True)]
    return _frame().replace(MARK, "\n".join(parts))


def loops_of(result: Expression, numbers: int) -> tuple[Loop, ...]:
    """Return what a generated function computes: values, slopes, slopes with all other derivatives.

    Args:
        result: the traced function.
        numbers: how many numbers it has besides the element.
    """
    value, *slopes = without_bounds(*without_detach(result, *derivatives(result, numbers + 1)))
    return (
        Loop("values", False, [value]),
        Loop("slopes", True, slopes[:1]),
        Loop("terms", True, slopes),
    )


@cache
def _frame() -> str:
    return (HERE / "elementwise.c").read_text()


def _function(loop: Loop, numbers: int, *, by_row: bool) -> str:
    """Return one C function; ``by_row`` if each element has numbers of its own."""
    arguments = ["In x", *(["In above"] if loop.needs_gradient else []), "Out out"]
    arguments += ["Out terms"] * (loop.name == "terms")
    arguments += ["Rows numbers" if by_row else "In numbers", "int64_t count"]
    suffix = "many" if by_row else "one"
    outside = []
    inside = []
    for k in range(numbers):
        if by_row:
            outside.append(f"In row{k + 1} = numbers[{k}];")
            inside.append(f"const float n{k + 1} = row{k + 1}[i];")
        else:
            outside.append(f"const float n{k + 1} = numbers[{k}];")
    inside += ["const float n0 = x[i];", *_statements(loop)]
    name = f"{loop.name}_{suffix}"
    return "\n".join(
        [
            f"__attribute__((noinline)) static void {name}({', '.join(arguments)}) {{",
            *(f"    {line}" for line in outside),
            "    for (int64_t i = 0; i < count; i++) {",
            *(f"        {line}" for line in inside),
            "    }",
            "}",
        ]
    )


def assignments(
    loop: Loop,
    literal: Callable[[float], str],
    written: Callable[[Expression, dict[Expression, str]], str],
) -> tuple[list[tuple[Expression, str, str]], list[str]]:
    """Return what a loop computes, one expression after the other, and what names its results.

    Args:
        loop: its results.
        literal: writes a constant.
        written: writes an expression, given the names of its operands.

    Returns:
        Each expression with its name and text, in order; the names, or constants, of the results.
    """
    names: dict[Expression, str] = {}
    steps = []
    for expression in in_order(*loop.results):
        if expression.operation == "constant":
            names[expression] = literal(expression.value)
        elif expression.operation == "input":
            names[expression] = f"n{int(expression.value)}"
        else:
            name = f"v{len(names)}"
            steps.append((expression, name, written(expression, names)))
            names[expression] = name
    return steps, [names[result] for result in loop.results]


def _statements(loop: Loop) -> list[str]:
    lines = []
    steps, (output, *terms) = assignments(loop, _literal, _written)
    for expression, name, text in steps:
        lines.append(f"const {'int' if expression.is_condition else 'float'} {name} = {text};")
    lines.append(f"out[i] = above[i] * {output};" if loop.needs_gradient else f"out[i] = {output};")
    lines += [f"terms[{k} * BLOCK + i] = {term};" for k, term in enumerate(terms)]
    return lines


def _written(expression: Expression, names: dict[Expression, str]) -> str:
    operands = [names[operand] for operand in expression.operands]
    operation = expression.operation
    if operation in INFIX:
        return f"{operands[0]} {INFIX[operation]} {operands[1]}"
    if operation == "neg":
        return f"-{operands[0]}"
    if operation == "not":
        return f"!{operands[0]}"
    if operation == "where":
        return f"{operands[0]} ? {operands[1]} : {operands[2]}"
    return f"{function_name(expression)}({operands[0]})"


def function_name(expression: Expression) -> str:
    """Return the function of ``elementwise.c`` for the range in which an argument lies.

    Args:
        expression: a function of one argument.
    """
    (argument,) = expression.operands
    if expression.operation in ("exp", "expm1") and is_negative_or_zero(argument):
        return f"{expression.operation}_of_negative"
    if expression.operation == "log1p" and is_unit_interval(argument):
        return "log1p_of_unit"
    return _CALLS[expression.operation]


def float32_constant(value: float) -> float:
    """Return a constant rounded to float32, as torch does."""
    return float(torch.tensor(value, dtype=torch.float32))


def _literal(value: float) -> str:
    """Return a constant as C writes it, rounded to float32."""
    rounded = float32_constant(value)
    if rounded != rounded:
        return '__builtin_nanf("")'
    if rounded in (float("inf"), float("-inf")):
        return "__builtin_inff()" if rounded > 0 else "(-__builtin_inff())"
    return f"({rounded.hex()}f)"
