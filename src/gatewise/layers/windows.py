"""The windows of a pooling layer, by the same rules as torch's pools."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from gatewise.checks import is_sequence, is_size
from gatewise.errors import ArgumentError

Sizes = int | Sequence[int]


def read_sizes(
    layer: str,
    name: str,
    value: Sizes,
    axes: int,
    *,
    least: int,
) -> tuple[int, ...]:
    """Return one number per axis, from one number for all axes or one for each.

    Args:
        layer: the name of the layer in the error message.
        name: the name of the option in the error message.
        value: an integer, or a sequence of ``axes`` integers.
        axes: the number of dimensions.
        least: the smallest size allowed.

    Raises:
        ArgumentError: if a size is not an integer of at least ``least``, or the count is wrong.
    """
    sizes = (value,) * axes if isinstance(value, int) else value
    countable = is_sequence(sizes) and len(sizes) == axes
    if not countable or not all(is_size(size, least) for size in sizes):
        allowed = f"an integer >= {least}" + (f", or {axes} of them" if axes > 1 else "")
        raise ArgumentError(f"{layer}: option {name} is not allowed", got=value, allowed=allowed)
    return tuple(sizes)


@dataclass(frozen=True)
class Windows:
    """Sizes of windows by axis.

    A window never starts beyond the input, and holds at least one position of it.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]  # on both sides
    dilation: tuple[int, ...]
    ceil_mode: bool  # whether windows may exceed the far edge

    @property
    def axes(self) -> int:
        """The number of dimensions that are pooled."""
        return len(self.kernel)

    @property
    def extent(self) -> tuple[int, ...]:
        """The distance from the first to the last position of a window plus 1, by axis."""
        sizes = zip(self.kernel, self.dilation, strict=True)
        return tuple(gap * (kernel - 1) + 1 for kernel, gap in sizes)

    def counts(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the number of windows along each axis of an input of these sizes."""
        return tuple(self._count(axis, size) for axis, size in enumerate(sizes))

    def _count(self, axis: int, size: int) -> int:
        stride = self.stride[axis]
        padding = self.padding[axis]
        rest = size + 2 * padding - self.extent[axis]
        if not self.ceil_mode:
            return rest // stride + 1
        count = (rest + stride - 1) // stride + 1
        # As torch: a window must not start in the padding after the input.
        if (count - 1) * stride >= size + padding:
            return count - 1
        return count

    def check(self, layer: str, x: Tensor) -> None:
        """Raise an error for an input of another rank, or one that is too small for some window."""
        if x.dim() not in (self.axes + 1, self.axes + 2):
            letters = ", ".join("CDHW"[-self.axes :]) if self.axes > 1 else "L"
            allowed = f"(N, C, {letters}) or (C, {letters})"
            raise ArgumentError(
                f"{layer}: wrong number of input dimensions",
                got=f"shape {tuple(x.shape)}",
                allowed=allowed,
            )
        if x.shape[-1 - self.axes] == 0:
            raise ArgumentError(
                f"{layer}: the input has no channels", got=f"shape {tuple(x.shape)}"
            )
        sizes = x.shape[-self.axes :]
        padded = self.ceil_mode or any(self.padding)
        for size, count, gap in zip(sizes, self.counts(sizes), self.dilation, strict=True):
            if count < 1 or (size < gap and padded):
                raise ArgumentError(
                    f"{layer}: the input is too small for the windows",
                    got=f"shape {tuple(x.shape)}, {self}",
                    fix="a smaller kernel_size or dilation, or a larger input",
                )

    def positions(self, x: Tensor, fill: float) -> list[Tensor]:
        """Return, for each position in a window, the values of all windows there.

        Args:
            x: the input, with the pooled dimensions last.
            fill: the value of positions outside of ``x``.
        """
        sizes = x.shape[-self.axes :]
        counts = self.counts(sizes)
        lengths = []
        pads: list[int] = []
        for axis in range(self.axes):
            length = (counts[axis] - 1) * self.stride[axis] + 1
            left = self.padding[axis]
            right = length + self.extent[axis] - 1 - sizes[axis] - left
            lengths.append(length)
            # F.pad takes the last axis first.
            pads = [left, max(right, 0), *pads]
        if any(pads):
            x = F.pad(x, pads, value=fill)
        offsets = [range(0, e, d) for e, d in zip(self.extent, self.dilation, strict=True)]
        return [x[self._slices(place, lengths)] for place in product(*offsets)]

    def _slices(self, place: Sequence[int], lengths: Sequence[int]) -> tuple:
        index: list[Any] = [...]
        for start, length, step in zip(place, lengths, self.stride, strict=True):
            index.append(slice(start, start + length, step))
        return tuple(index)
