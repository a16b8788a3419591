"""How a generated kernel for Triton finds, reads and writes its tile of elements.

Elements lie in memory by an outer, a middle and an inner dimension. A tile has one outer index,
some rows (middle indices) and some columns (inner indices). Importing this module needs Triton.
"""

import triton  # pyright: ignore[reportMissingImports] (an extra)
import triton.language as tl  # pyright: ignore[reportMissingImports]

from gatewise.fused.gpu.device_functions import as_bits, as_float


@triton.jit
def tile_place(
    middle: tl.tensor,
    inner: tl.tensor,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
) -> tuple[tl.tensor, ...]:
    """Return where this program's tile is: the outer index, and which tile down and across."""
    across = tl.cdiv(inner, COLS)
    down = tl.cdiv(middle, ROWS)
    first = tl.program_id(0) // across
    outer = (first // down).to(tl.int64)
    return outer, (first % down).to(tl.int64), (tl.program_id(0) % across).to(tl.int64)


@triton.jit
def tile(
    middle: tl.tensor,
    inner: tl.tensor,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
) -> tuple[tl.tensor, ...]:
    """Return outer index, row and column of the elements of this program's tile."""
    outer, down, along = tile_place(middle, inner, ROWS, COLS)
    row = down * ROWS + tl.arange(0, ROWS)[:, None]
    col = along * COLS + tl.arange(0, COLS)[None, :]
    return outer, row, col


@triton.jit
def read(pointer: tl.tensor, is_inside: tl.tensor) -> tl.tensor:
    """Return elements as float32. See Note [Half types]."""
    value = tl.load(pointer, mask=is_inside, other=0)
    if value.dtype == tl.int16:
        return as_float(value.to(tl.int32) << 16)
    else:
        return value.to(tl.float32)


@triton.jit
def write(pointer: tl.tensor, value: tl.tensor, is_inside: tl.tensor) -> None:
    """Write float32 numbers, rounded once to the type of the elements. See Note [Half types]."""
    if pointer.dtype.element_ty == tl.int16:
        bits = as_bits(value)
        rounded = bits + 0x7FFF + ((bits >> 16) & 1)
        quiet = bits | 0x400000  # NaN stays NaN
        half = tl.where(value == value, rounded, quiet) >> 16
        tl.store(pointer, half.to(tl.int16), mask=is_inside)
    else:
        tl.store(pointer, value.to(pointer.dtype.element_ty), mask=is_inside)


@triton.jit
def read_number(
    number: tl.tensor,
    outer: tl.tensor,
    row: tl.tensor,
    col: tl.tensor,
    middle: tl.tensor,
    inner: tl.tensor,
    outer_step: tl.tensor,
    middle_step: tl.tensor,
    KIND: tl.constexpr,
) -> tl.tensor:
    """Return a number of the function for the elements of a tile.

    ``KIND`` is 0 for one number that is given, 1 for one per row, 2 for one per element of a row.
    """
    if KIND == 0:
        return tl.zeros((1, 1), tl.float32) + number
    else:
        place = outer * outer_step + row * middle_step
        if KIND == 1:
            return tl.load(number + place, mask=row < middle, other=0.0)
        else:
            is_inside = (row < middle) & (col < inner)
            return tl.load(number + place + col, mask=is_inside, other=0.0)


@triton.jit
def write_sums(
    sums: tl.tensor,
    product: tl.tensor,
    middle: tl.tensor,
    inner: tl.tensor,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
) -> None:
    """Write the sums of a tile of products.

    ``GROUP`` is 0 for none, 1 for one sum per row, 2 for one per column.
    """
    outer, down, along = tile_place(middle, inner, ROWS, COLS)
    row = down * ROWS + tl.arange(0, ROWS)[:, None]
    col = along * COLS + tl.arange(0, COLS)[None, :]
    own = tl.where((row < middle) & (col < inner), product, 0.0)
    if GROUP == 1:
        place = (outer * middle + row) * tl.cdiv(inner, COLS) + along
        tl.store(sums + place, tl.sum(own, 1, keep_dims=True), mask=row < middle)
    if GROUP == 2:
        place = (outer * tl.cdiv(middle, ROWS) + down) * inner + col
        tl.store(sums + place, tl.sum(own, 0, keep_dims=True), mask=col < inner)
