"""Where the windows of a pooling layer lie: the same rules as torch's own pools."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from torch import Tensor
from torch.nn import functional as F

from gatewise.errors import ArgumentError
from gatewise.units import is_sequence, is_size

Sizes = int | Sequence[int]


def read_sizes(layer: str, name: str, value: Sizes, axes: int, *, least: int) -> tuple[int, ...]:
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
    """Sizes by axis.

    A window never starts behind the input, and holds at least one position of it.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil_mode: bool

    @property
    def axes(self) -> int:
        """How many dimensions are pooled."""
        return len(self.kernel)

    @property
    def extent(self) -> tuple[int, ...]:
        """First to last position of a window, by axis."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True))

    def counts(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """How many windows there are along each axis of an input of these sizes."""
        return tuple(self._count(axis, size) for axis, size in enumerate(sizes))

    def _count(self, axis: int, size: int) -> int:
        stride, padding = self.stride[axis], self.padding[axis]
        room = size + 2 * padding - self.extent[axis]
        count = (room + (stride - 1 if self.ceil_mode else 0)) // stride + 1
        return count - 1 if self.ceil_mode and (count - 1) * stride >= size + padding else count

    def check(self, layer: str, x: Tensor) -> None:
        """Refuse an input of another rank, or one that some window would miss."""
        if x.dim() not in (self.axes + 1, self.axes + 2):
            letters = ", ".join("CDHW"[-self.axes :]) if self.axes > 1 else "L"
            allowed = f"(N, C, {letters}) or (C, {letters})"
            raise ArgumentError(
                f"{layer}: the input has another rank",
                got=f"shape {tuple(x.shape)}",
                allowed=allowed,
            )
        if x.shape[-1 - self.axes] == 0:
            raise ArgumentError(
                f"{layer}: the input has no channels", got=f"shape {tuple(x.shape)}"
            )
        for size, count, gap in zip(
            x.shape[-self.axes :], self.counts(x.shape[-self.axes :]), self.dilation, strict=True
        ):
            if count < 1 or (size < gap and (self.ceil_mode or any(self.padding))):
                raise ArgumentError(
                    f"{layer}: the input is too small for the windows",
                    got=f"shape {tuple(x.shape)}, {self}",
                    fix="a smaller kernel_size or dilation, or a larger input",
                )

    def taps(self, x: Tensor, fill: float) -> list[Tensor]:
        """For each place in a window, what all windows see there; ``fill`` outside of ``x``."""
        sizes = x.shape[-self.axes :]
        counts = self.counts(sizes)
        last = [(n - 1) * s + 1 for n, s in zip(counts, self.stride, strict=True)]
        right = [
            n + e - 1 - size - p
            for n, e, size, p in zip(last, self.extent, sizes, self.padding, strict=True)
        ]
        sides = [
            side
            for left, other in zip(self.padding, right, strict=True)
            for side in (max(other, 0), left)
        ]
        if any(sides):
            x = F.pad(x, sides[::-1], value=fill)
        places = product(*(range(0, e, d) for e, d in zip(self.extent, self.dilation, strict=True)))
        return [x[self._slices(place, last)] for place in places]

    def _slices(self, place: Sequence[int], last: Sequence[int]) -> tuple:
        parts = zip(place, last, self.stride, strict=True)
        return (..., *(slice(start, start + length, step) for start, length, step in parts))
