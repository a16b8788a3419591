"""Where each channel of a changed tensor comes from.

One idea carries all of surgery: a tensor whose channels were changed has a map, which says of each
channel now there which old channel it is or was copied from, and whether it was added.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class ChannelMap:
    """New channel ``j`` along ``dim`` comes from old channel ``index[j]``; ``new[j]``.

    It was added.
    """

    dim: int
    index: Tensor  # (new width,) int64
    new: Tensor  # (new width,) bool

    def __len__(self) -> int:
        return len(self.index)

    def same_as(self, other: "ChannelMap") -> bool:
        """Whether both say the same, dimension included."""
        return (
            self.dim == other.dim
            and torch.equal(self.index, other.index)
            and torch.equal(self.new, other.new)
        )

    def moved(self, dim: int) -> "ChannelMap":
        """The same along another dimension."""
        return ChannelMap(dim, self.index, self.new)

    @property
    def narrows(self) -> bool:
        """Whether channels were taken away, and none added."""
        return not bool(self.new.any())

    def parts(self, count: int, width: int) -> list["ChannelMap"]:
        """Cut into ``count`` equal parts, the i-th made of old channels ``i * width`` and on.

        ``[]`` if it is not.
        """
        if len(self) % count:
            return []
        index, new = self.index.view(count, -1), self.new.view(count, -1)
        first = torch.arange(count)[:, None] * width
        if not bool(((index >= first) & (index < first + width)).all()):
            return []
        return [ChannelMap(self.dim, i, n) for i, n in zip(index - first, new, strict=True)]

    def alike_parts(self, count: int, width: int) -> "ChannelMap | None":
        """The one map that every one of ``count`` parts has; ``None`` if they differ."""
        parts = self.parts(count, width)
        return parts[0] if parts and all(part.same_as(parts[0]) for part in parts) else None

    def merged(self, outer: int, width: int, inner: int, dim: int) -> "ChannelMap":
        """The map after ``(outer, width, inner)`` became one dimension ``dim``."""
        index = (torch.arange(outer)[:, None] * width + self.index)[
            :, :, None
        ] * inner + torch.arange(inner)
        new = self.new[None, :, None].expand(outer, len(self), inner)
        return ChannelMap(dim, index.reshape(-1), new.reshape(-1))


def identity(width: int, dim: int) -> ChannelMap:
    """Every channel is itself."""
    return ChannelMap(dim, torch.arange(width), torch.zeros(width, dtype=torch.bool))


def doubled(width: int, dim: int, *, interleaved: bool) -> ChannelMap:
    """Each channel and a new one: ``[all, all new]``, or interleaved pairwise.

    Interleaved, every contiguous slice of channels doubles in place, so grouped layers, chunks and
    shuffles stay right; in blocks, so do norms over groups of channels.
    """
    index, new = torch.arange(width), torch.tensor([False, True])
    if interleaved:
        return ChannelMap(dim, index.repeat_interleave(2), new.repeat(width))
    return ChannelMap(dim, index.repeat(2), new.repeat_interleave(width))


def first_half(width: int, dim: int) -> ChannelMap:
    """The first half of the channels."""
    return identity(width // 2, dim)


def concatenated(parts: Sequence[tuple[ChannelMap | None, int]], dim: int) -> ChannelMap:
    """Maps and old widths of tensors put one after the other along ``dim``; no map.

    An unchanged tensor.
    """
    index, new, start = [], [], 0
    for found, width in parts:
        part = found or identity(width, dim)
        index.append(part.index + start)
        new.append(part.new)
        start += width
    return ChannelMap(dim, torch.cat(index), torch.cat(new))


def to_runs(values: Tensor) -> list[list[int]]:
    """A vector of integers as arithmetic runs ``[first, step, count]``.

    A few numbers for the maps that occur.
    """
    numbers, runs, place = values.tolist(), [], 0
    turns = (
        values.diff(n=2).nonzero().flatten() + 1
    ).tolist()  # where the step to the next is not the one before
    for turn in [*turns, len(numbers) - 1]:
        if turn > place:
            runs.append([numbers[place], numbers[place + 1] - numbers[place], turn - place + 1])
            place = turn + 1
    return runs + [[number, 0, 1] for number in numbers[place:]]


def from_runs(runs: Sequence[Sequence[int]]) -> Tensor:
    """The vector that :func:`to_runs` wrote."""
    parts = [torch.arange(count) * step + first for first, step, count in runs]
    return torch.cat(parts) if parts else torch.arange(0)
