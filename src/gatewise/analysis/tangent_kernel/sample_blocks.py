"""The samples of a kernel, and the blocks it is computed in."""

from collections.abc import Iterator

import torch
from torch import Tensor


class Samples:
    """The two sets of samples of a kernel; one set twice, if ``x2`` is None."""

    def __init__(self, x: tuple[Tensor, ...], x2: tuple[Tensor, ...] | None) -> None:
        self.x, self.x2 = x, x if x2 is None else x2
        self.symmetric = x2 is None
        self.rows, self.columns = self.x[0].shape[0], self.x2[0].shape[0]
        self.probed = (
            2 * self.rows // 3
        )  # a row that turning the batch round, or a running sum over it, changes

    def probe(self) -> tuple[Tensor, ...]:
        """One sample."""
        return tuple(each[self.probed : self.probed + 1] for each in self.x)

    def blocks(self, size: int) -> Iterator[tuple[slice, slice]]:
        """Rows and columns of the blocks to compute, the lower half only if the two sets are one."""
        for row in range(0, self.rows, size):
            for column in range(0, row + 1 if self.symmetric else self.columns, size):
                yield (
                    slice(row, min(row + size, self.rows)),
                    slice(column, min(column + size, self.columns)),
                )

    def batch(self, rows: slice, columns: slice) -> tuple[tuple[Tensor, ...], slice, slice]:
        """The inputs of one block, and where its rows and its columns are in them."""
        count = rows.stop - rows.start
        if self.symmetric and rows == columns:
            return tuple(each[rows] for each in self.x), slice(0, count), slice(0, count)
        inputs = tuple(
            torch.cat((a[rows], b[columns])) for a, b in zip(self.x, self.x2, strict=True)
        )
        return inputs, slice(0, count), slice(count, count + columns.stop - columns.start)

    def whole(self) -> tuple[tuple[Tensor, ...], slice, slice]:
        """The same for the whole kernel as one block."""
        return self.batch(slice(0, self.rows), slice(0, self.columns))

    def probed_row(self, rows: slice) -> int | None:
        """Where the probe's sample is in a batch with these rows."""
        return self.probed - rows.start if rows.start <= self.probed < rows.stop else None
