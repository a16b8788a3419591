"""Move the pixels of each image in its own way, by indexing and by bilinear interpolation.

See Note [The same bits in any batch].
"""

import math
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from gatewise.data.hashing import below
from gatewise.errors import ArgumentError

STEPS = 4096  # entries of a table
BORDERS = ("black", "reflect")


def pad(images: Tensor, by: int, border: str = "black") -> Tensor:
    """Return the images with ``by`` more pixels on each side.

    Args:
        images: (n, c, h, w).
        by: how many.
        border: ``"black"``, or ``"reflect"`` for the image mirrored at its edge; then ``by`` is
            smaller than the image.
    """
    if border == "black":
        return F.pad(images, (by, by, by, by))
    height, width = images.shape[-2:]
    if by >= min(height, width):
        raise ArgumentError(
            "border: an image cannot be mirrored that far",
            got=by,
            allowed=f"< {min(height, width)}",
        )
    # By joining parts, because torch does not mirror integers.
    return _mirrored(_mirrored(images, by, -1), by, -2)


def _mirrored(images: Tensor, by: int, axis: int) -> Tensor:
    """Return the images with ``by`` more pixels before and after, mirrored at the outermost one."""
    size = images.shape[axis]
    before = images.narrow(axis, 1, by).flip(axis)
    after = images.narrow(axis, size - 1 - by, by).flip(axis)
    return torch.cat([before, images, after], axis)


def window(images: Tensor, top: Tensor, left: Tensor, height: int, width: int) -> Tensor:
    """Return the rectangle of each image that begins at (top, left).

    Shape: ``(n, c, h, w), (n), (n) -> (n, c, height, width)``.
    """
    every = images.unfold(2, height, 1).unfold(3, width, 1)  # a view: all rectangles of that size
    return every[torch.arange(len(images), device=images.device), :, top, left]


def resize(
    images: Tensor,
    top: Tensor,
    left: Tensor,
    tall: Tensor,
    wide: Tensor,
    size: int,
) -> Tensor:
    """Return a rectangle of each image, resized to a square by bilinear interpolation, as float32.

    Corners are not aligned: the outermost sample is half a new pixel from the edge. uint8 is
    divided by 255.

    Args:
        images: (n, c, h, w).
        top: (n) first row of the rectangle.
        left: (n) first column.
        tall: (n) number of rows.
        wide: (n) number of columns.
        size: side of the square.

    Returns:
        (n, c, size, size).
    """
    n, channels, _, width = images.shape
    low, high, share = _samples(top, tall, size)
    rows = (n, channels, size, width)
    above = images.gather(2, low.view(n, 1, size, 1).expand(rows))
    below_it = images.gather(2, high.view(n, 1, size, 1).expand(rows))
    mixed = _between(_scaled(above), _scaled(below_it), share.view(n, 1, size, 1))
    low, high, share = _samples(left, wide, size)
    columns = (n, channels, size, size)
    left_of = mixed.gather(3, low.view(n, 1, 1, size).expand(columns))
    right_of = mixed.gather(3, high.view(n, 1, 1, size).expand(columns))
    return _between(left_of, right_of, share.view(n, 1, 1, size))


def rotate(images: Tensor, random: Tensor, most: float) -> Tensor:
    """Return each image turned about its centre by one of 4,096 angles, bilinear.

    Args:
        images: (n, c, h, w).
        random: (n) random bits.
        most: the largest angle in degrees, in both directions.
    """
    n, channels, height, width = images.shape
    # Each pixel of the result is read from the place that the rotation moves to it.
    cos, sin = _turns(most).to(images.device)[:, below(random, STEPS)].view(2, n, 1, 1)
    y = (torch.arange(height, device=images.device) - (height - 1) / 2).view(1, height, 1)
    x = (torch.arange(width, device=images.device) - (width - 1) / 2).view(1, 1, width)
    from_y = y * cos - x * sin + (height - 1) / 2
    from_x = y * sin + x * cos + (width - 1) / 2
    padded = pad(images, 1).flatten(2)  # places outside the image are read from the black frame
    from_y = from_y.clamp(-1, height) + 1
    from_x = from_x.clamp(-1, width) + 1
    top = from_y.floor().clamp(max=height)
    left = from_x.floor().clamp(max=width)
    at = (top.long() * (width + 2) + left.long()).flatten(1).unsqueeze(1).expand(n, channels, -1)
    down = (from_y - top).unsqueeze(1)
    right = (from_x - left).unsqueeze(1)
    rows = []
    for step in (0, width + 2):
        left_of = padded.gather(2, at + step).view(images.shape)
        right_of = padded.gather(2, at + step + 1).view(images.shape)
        rows.append(_between(left_of, right_of, right))
    return _between(rows[0], rows[1], down)


def log_uniform(random: Tensor, between: tuple[float, float]) -> Tensor:
    """Return one of 4,096 numbers for each entry, whose logarithms are equally spaced, float64."""
    return _exponentials(*between).to(random.device)[below(random, STEPS)]


def below_each(random: Tensor, count: Tensor) -> Tensor:
    """Return as :func:`below`, with another count for each entry."""
    return (((random >> 33) & (2**31 - 1)) * count) >> 31


def _samples(start: Tensor, length: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the two pixels around each sample, and the weight of the second: (n, size).

    The samples are equally spaced over ``length`` pixels from ``start`` on.
    """
    start = start.unsqueeze(1)
    length = length.unsqueeze(1)
    centres = torch.arange(size, device=start.device) + 0.5
    at = (centres * (length.double() / size) - 0.5).clamp(min=0)
    low = at.floor().long()
    high = torch.minimum(low + 1, length - 1)
    return start + low, start + high, (at - low).float()


def _between(first: Tensor, second: Tensor, share: Tensor) -> Tensor:
    # Three roundings at every place of a batch; torch.lerp may fuse some of them.
    return first * (1 - share) + second * share


def _scaled(pixels: Tensor) -> Tensor:
    if pixels.dtype == torch.uint8:
        return pixels.float() / 255
    return pixels


@lru_cache
def _turns(most: float) -> Tensor:
    """Return cosines and sines of equally spaced angles: (2, STEPS)."""
    angles = [math.radians(most) * (2 * step / (STEPS - 1) - 1) for step in range(STEPS)]
    return torch.tensor([list(map(math.cos, angles)), list(map(math.sin, angles))])


@lru_cache
def _exponentials(low: float, high: float) -> Tensor:
    start = math.log(low)
    width = math.log(high) - start
    values = [math.exp(start + width * step / (STEPS - 1)) for step in range(STEPS)]
    return torch.tensor(values, dtype=torch.float64)
