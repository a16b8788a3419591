"""Channel maps: where each channel of a changed tensor comes from.

All of surgery rests on one idea. A tensor whose channels were changed has a map. For each new
channel, the map names the old channel it was copied from and says whether it was added.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class ChannelMap:
    """The origin of every channel along one dimension of a tensor.

    New channel ``j`` along ``dim`` is a copy of old channel ``index[j]``. ``new[j]`` says that the
    channel was added, so that layers that read it must ignore it or learn it.
    """

    dim: int
    index: Tensor  # (new width,) int64
    new: Tensor  # (new width,) bool

    def __len__(self) -> int:
        return len(self.index)

    def same_as(self, other: "ChannelMap") -> bool:
        """Whether both maps are equal, dimension included."""
        return (
            self.dim == other.dim
            and torch.equal(self.index, other.index)
            and torch.equal(self.new, other.new)
        )

    def moved(self, dim: int) -> "ChannelMap":
        """Return the same map along another dimension."""
        return ChannelMap(dim, self.index, self.new)

    @property
    def narrows(self) -> bool:
        """Whether channels were removed and none was added."""
        return not bool(self.new.any())

    def parts(self, count: int, width: int) -> list["ChannelMap"]:
        """Cut the map into ``count`` equal parts.

        Part ``i`` must come from the old channels ``i * width`` to ``(i + 1) * width - 1`` only.

        Returns:
            One map for each part, or an empty list if the map cannot be cut this way.
        """
        if len(self) % count:
            return []
        index = self.index.view(count, -1)
        new = self.new.view(count, -1)
        first = torch.arange(count, device="cpu")[:, None] * width
        if not bool(((index >= first) & (index < first + width)).all()):
            return []
        return [ChannelMap(self.dim, i, n) for i, n in zip(index - first, new, strict=True)]

    def alike_parts(self, count: int, width: int) -> "ChannelMap | None":
        """Return the map that all of ``count`` parts share, or ``None`` if they differ."""
        parts = self.parts(count, width)
        if parts and all(part.same_as(parts[0]) for part in parts):
            return parts[0]
        return None

    def whole_groups(self, size: int) -> "ChannelMap | None":
        """Return the map of groups of ``size`` channels, or ``None`` if a group is torn apart.

        Each new group must be a whole old group: consecutive channels from its first one.
        """
        if len(self) % size:
            return None
        index = self.index.view(-1, size)
        new = self.new.view(-1, size)
        first = index[:, :1]
        consecutive = index == first + torch.arange(size, device="cpu")
        if not bool((consecutive & (first % size == 0) & (new == new[:, :1])).all()):
            return None
        return ChannelMap(self.dim, index[:, 0] // size, new[:, 0])

    def merged(self, outer: int, width: int, inner: int, dim: int) -> "ChannelMap":
        """Return the map after dimensions ``(outer, width, inner)`` were merged into ``dim``."""
        channels = torch.arange(outer, device="cpu")[:, None] * width + self.index
        index = channels[:, :, None] * inner + torch.arange(inner, device="cpu")
        new = self.new[None, :, None].expand(outer, len(self), inner)
        return ChannelMap(dim, index.reshape(-1), new.reshape(-1))


def identity(width: int, dim: int) -> ChannelMap:
    """Return the map of an unchanged tensor of ``width`` channels."""
    return ChannelMap(
        dim, torch.arange(width, device="cpu"), torch.zeros(width, dtype=torch.bool, device="cpu")
    )


def doubled(width: int, dim: int, *, interleaved: bool) -> ChannelMap:
    """Return the map that adds one new channel for every channel.

    Interleaved channels keep every contiguous slice of channels together, so grouped layers, chunks
    and channel shuffles stay correct. Blocks keep norms over groups of channels correct.

    Args:
        width: The number of old channels.
        dim: The channel dimension.
        interleaved: Order as ``[old 0, new 0, old 1, new 1, ...]`` instead of ``[old, new]``.
    """
    index = torch.arange(width, device="cpu")
    new = torch.tensor([False, True], device="cpu")
    if interleaved:
        return ChannelMap(dim, index.repeat_interleave(2), new.repeat(width))
    return ChannelMap(dim, index.repeat(2), new.repeat_interleave(width))


def resized(width: int, new_width: int, dim: int) -> ChannelMap:
    """Return the map to ``new_width`` channels: the first ones, then new copies of the first."""
    index = torch.arange(new_width, device="cpu")
    return ChannelMap(dim, index % width, index >= width)


def concatenated(parts: Sequence[tuple[ChannelMap | None, int]], dim: int) -> ChannelMap:
    """Return the map of tensors that are concatenated along ``dim``.

    Args:
        parts: The map and the old width of each tensor. The map is ``None`` if it is unchanged.
        dim: The dimension of the concatenation.
    """
    index = []
    new = []
    start = 0
    for change, width in parts:
        part = change or identity(width, dim)
        index.append(part.index + start)
        new.append(part.new)
        start += width
    return ChannelMap(dim, torch.cat(index), torch.cat(new))


def to_runs(values: Tensor) -> list[list[int]]:
    """Write a vector of integers as arithmetic runs ``[first, step, count]``.

    Channel maps are long but regular, so a plan stores a few runs instead of every index.
    """
    numbers = values.tolist()
    # A run ends where the step to the next number differs from the step before.
    turns = (values.diff(n=2).nonzero().flatten() + 1).tolist()
    runs = []
    place = 0
    for turn in [*turns, len(numbers) - 1]:
        if turn > place:
            runs.append([numbers[place], numbers[place + 1] - numbers[place], turn - place + 1])
            place = turn + 1
    return runs + [[number, 0, 1] for number in numbers[place:]]


def from_runs(runs: Sequence[Sequence[int]]) -> Tensor:
    """Return the vector that :func:`to_runs` wrote."""
    # On the CPU also inside ``torch.device("meta")``, where weights are loaded into a new model.
    parts = []
    for first, step, count in runs:
        parts.append(torch.arange(count, device="cpu") * step + first)
    return torch.cat(parts) if parts else torch.arange(0, device="cpu")
