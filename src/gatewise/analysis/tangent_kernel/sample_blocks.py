"""The samples of a kernel, and the blocks it is computed in."""

from collections.abc import Iterator

import torch
from torch import Tensor


class Samples:
    """The two sets of samples of a kernel. ``x2=None`` means that both sets are ``x``."""

    def __init__(self, x: tuple[Tensor, ...], x2: tuple[Tensor, ...] | None) -> None:
        self.x = x
        self.x2 = x if x2 is None else x2
        self.symmetric = x2 is None
        self.rows = self.x[0].shape[0]
        self.columns = self.x2[0].shape[0]
        # A row that changes when the batch is rotated, or is summed up to this row.
        self.probed = 2 * self.rows // 3

    def probe(self) -> tuple[Tensor, ...]:
        """One sample, as a batch of size 1."""
        return tuple(x[self.probed : self.probed + 1] for x in self.x)

    def blocks(self, size: int) -> Iterator[tuple[slice, slice]]:
        """Yield rows and columns of the blocks; only the lower half if both sets are the same."""
        for row in range(0, self.rows, size):
            stop = row + 1 if self.symmetric else self.columns
            for column in range(0, stop, size):
                rows = slice(row, min(row + size, self.rows))
                yield rows, slice(column, min(column + size, self.columns))

    def batch(self, rows: slice, columns: slice) -> tuple[tuple[Tensor, ...], slice, slice]:
        """The inputs of one block, and the positions of its rows and columns in them."""
        count = rows.stop - rows.start
        if self.symmetric and rows == columns:
            return tuple(x[rows] for x in self.x), slice(0, count), slice(0, count)
        inputs = tuple(
            torch.cat((a[rows], b[columns])) for a, b in zip(self.x, self.x2, strict=True)
        )
        return inputs, slice(0, count), slice(count, count + columns.stop - columns.start)

    def probed_row(self, rows: slice) -> int | None:
        """The position of the probed sample in a batch that starts with these rows."""
        if rows.start <= self.probed < rows.stop:
            return self.probed - rows.start
        return None
