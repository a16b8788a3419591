"""Splits whose images and masks are decoded when they are read, not all at once.

Note [Digests of streamed sets]. Reading every image only for a digest would take as long as an
epoch. The digest of a streamed set is over its lists and annotations, and over the names and sizes
of its image files.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gatewise.data.data_set import Split
from gatewise.errors import ArgumentError
from gatewise.files import explained

# Of ImageNet: their own would need all images to be read.
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True, eq=False)
class StreamedRows:
    """Rows of a tensor, each decoded from a file when it is asked for.

    Attributes:
        paths: one file for each row.
        decode: reads a file and returns the row.
        row: the shape of a row.
    """

    paths: Sequence[Path]
    decode: Callable[[Path], Tensor]
    row: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: Any) -> Tensor:
        """Return the rows at these places, decoded; with a number one row."""
        if isinstance(index, int):
            return self.decode(self.paths[index])
        chosen = self._chosen(index)
        if not chosen:
            return torch.zeros(0, *self.row, dtype=torch.uint8)
        return torch.stack([self.decode(path) for path in chosen])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of all rows together."""
        return len(self), *self.row

    def numel(self) -> int:
        """Return the count of numbers in all rows."""
        return torch.Size(self.shape).numel()

    def take(self, index: Any) -> "StreamedRows":
        """Return the rows at these places, not yet decoded."""
        return StreamedRows(self._chosen(index), self.decode, self.row)

    def _chosen(self, index: Any) -> list[Path]:
        """Return the files at these places: a slice, numbers, or one bool for each row."""
        if isinstance(index, slice):
            return list(self.paths[index])
        places = torch.as_tensor(index)
        if places.dtype == torch.bool:
            if places.shape != (len(self),):
                raise ArgumentError(
                    "a mask must have one value for each row", got=f"shape {tuple(places.shape)}"
                )
            places = places.nonzero()
        return [self.paths[place] for place in places.flatten().tolist()]


@dataclass(frozen=True, eq=False)
class StreamedSplit(Split):
    """A split with streamed images, and labels that are streamed or in memory."""

    images: Any  # StreamedRows in the place of a tensor
    labels: Any

    def take(self, index: Tensor) -> "StreamedSplit":
        """Return the examples at these places, in this order."""
        return type(self)(self.images.take(index), _part(self.labels, index))

    def first(self, count: int) -> "StreamedSplit":
        """Return the first ``count`` examples."""
        return type(self)(self.images.take(slice(count)), _part(self.labels, slice(count)))


def _part(labels: Any, index: Tensor | slice) -> Any:
    """Return some labels, not yet decoded if they are streamed."""
    return labels.take(index) if isinstance(labels, StreamedRows) else labels[index]


def streamed_digest(texts: Sequence[bytes], files: Sequence[Path]) -> str:
    """Return the digest of a streamed set; see Note [Digests of streamed sets].

    Args:
        texts: lists and annotations.
        files: images and masks.
    """
    total = sha256()
    for text in texts:
        total.update(sha256(text).digest())
    for path in files:
        with explained("look at", path):
            total.update(f"{path.name} {path.stat().st_size}\n".encode())
    return total.hexdigest()


def rgb_row(image: Any) -> Tensor:
    """Return an image of the image library as (3, height, width), uint8."""
    pixels = torch.frombuffer(bytearray(image.convert("RGB").tobytes()), dtype=torch.uint8)
    return pixels.view(image.height, image.width, 3).permute(2, 0, 1)
