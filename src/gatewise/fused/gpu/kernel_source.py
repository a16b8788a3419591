"""The Triton source of a traced function: one kernel for its values and two for its derivatives."""

from collections.abc import Sequence

from gatewise.fused.expressions import Expression
from gatewise.fused.source import (
    INFIX,
    Loop,
    assignments,
    float32_constant,
    function_name,
    loops_of,
)

SIZES = ("middle", "inner")
TILE = ("ROWS", "COLS")


def kernel_arguments(loop: Loop, numbers: int) -> list[str]:
    """Return the names of the arguments of a kernel, compile-time constants last in capitals.

    Args:
        loop: what the kernel computes.
        numbers: how many numbers the function takes besides the element.
    """
    every = range(1, numbers + 1)
    names = ["x", *(["above"] if loop.needs_gradient else []), "out"]
    names += [f"number{k}" for k in every]
    for k in every:
        names += [f"outer_step{k}", f"middle_step{k}"]
    if loop.name == "terms":
        names += [f"sums{k}" for k in every]
    names += [*SIZES, *(f"KIND{k}" for k in every)]
    if loop.name == "terms":
        names += [f"GROUP{k}" for k in every]
    return [*names, *TILE]


def kernel_texts(result: Expression, numbers: int) -> dict[str, str]:
    """Return the text of each kernel by its name: ``values``, ``slopes`` and ``terms``.

    Args:
        result: the traced function.
        numbers: how many numbers it has besides the element.
    """
    return {loop.name: _kernel(loop, numbers) for loop in loops_of(result, numbers)}


def _kernel(loop: Loop, numbers: int) -> str:
    arguments = []
    for name in kernel_arguments(loop, numbers):
        arguments.append(f"{name}: tl.constexpr" if name.isupper() else name)
    body = [
        "outer, row, col = tile(middle, inner, ROWS, COLS)",
        "place = (outer * middle + row) * inner + col",
        "is_inside = (row < middle) & (col < inner)",
        "n0 = read(x + place, is_inside)",
    ]
    if loop.needs_gradient:
        body.append("gradient = read(above + place, is_inside)")
    for k in range(1, numbers + 1):
        body.append(
            f"n{k} = read_number(number{k}, outer, row, col, middle, inner, "
            f"outer_step{k}, middle_step{k}, KIND{k})"
        )
    body += _statements(loop)
    head = f"def {loop.name}({', '.join(arguments)}):"
    return "\n".join([head, *(f"    {line}" for line in body)]) + "\n"


def _statements(loop: Loop) -> list[str]:
    steps, names = assignments(loop, _literal, _written)
    lines = [f"{name} = {text}" for _, name, text in steps]
    output, *terms = [
        f"tl.full((ROWS, COLS), {name}, tl.float32)" if result.operation == "constant" else name
        for result, name in zip(loop.results, names, strict=True)
    ]
    product = f"gradient * {output}" if loop.needs_gradient else output
    lines.append(f"write(out + place, {product}, is_inside)")
    for k, term in enumerate(terms, 1):
        lines.append(f"write_sums(sums{k}, gradient * {term}, middle, inner, GROUP{k}, ROWS, COLS)")
    return lines


def _written(expression: Expression, names: dict[Expression, str]) -> str:
    operands = [names[operand] for operand in expression.operands]
    operation = expression.operation
    if operation == "div":
        return f"tl.div_rn({_blocks(expression.operands, operands)})"
    if operation in INFIX:
        return f"{operands[0]} {INFIX[operation]} {operands[1]}"
    if operation == "neg":
        return f"-1.0 * {operands[0]}"  # older versions of Triton subtract from 0
    if operation == "not":
        return f"~{operands[0]}"
    if operation == "where":
        return f"tl.where({', '.join(operands)})"
    return f"{function_name(expression)}({_blocks(expression.operands, operands)})"


def _blocks(expressions: Sequence[Expression], names: Sequence[str]) -> str:
    """Return the arguments of a call, constants as blocks."""
    blocks = []
    for expression, name in zip(expressions, names, strict=True):
        is_constant = expression.operation == "constant"
        blocks.append(f"tl.full((1, 1), {name}, tl.float32)" if is_constant else name)
    return ", ".join(blocks)


def _literal(value: float) -> str:
    """Return a constant as Triton writes it, rounded to float32 as torch does."""
    rounded = float32_constant(value)
    if rounded - rounded != 0:  # infinite or NaN
        return f'float("{rounded}")'
    return f"({rounded!r})"
