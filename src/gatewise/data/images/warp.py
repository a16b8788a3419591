"""Moving pixels, each image in its own way, by indexing and by bilinear interpolation.

See Note [The same bits in any batch].
"""

import math
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from gatewise.data.hashing import below

STEPS = 4096  # of a table


def pad(images: Tensor, by: int) -> Tensor:
    """The images with ``by`` black pixels on each side."""
    return F.pad(images, (by, by, by, by))


def window(images: Tensor, top: Tensor, left: Tensor, height: int, width: int) -> Tensor:
    """The rectangle of each image that begins at (top, left).

    Shape: ``(n, c, h, w), (n), (n) -> (n, c, height, width)``.
    """
    every = images.unfold(2, height, 1).unfold(3, width, 1)  # a view: all rectangles of that size
    return every[torch.arange(len(images), device=images.device), :, top, left]


def resize(
    images: Tensor, top: Tensor, left: Tensor, tall: Tensor, wide: Tensor, size: int
) -> Tensor:
    """The rectangle of each image at (top, left), ``tall`` by ``wide``, as float32 of ``size`` by ``size``, bilinear.

    Corners are not aligned: the outermost sample is half a new pixel from the edge. uint8 keeps its scale of 0 to 255
    and is divided by it here. Shape: ``(n, c, h, w), 4 times (n) -> (n, c, size, size)``.
    """
    n, channels, _, width = images.shape
    low, high, share = _samples(top, tall, size)
    upper, lower = (
        images.gather(2, at.view(n, 1, size, 1).expand(n, channels, size, width))
        for at in (low, high)
    )
    mixed = _between(_unit(upper), _unit(lower), share.view(n, 1, size, 1))
    low, high, share = _samples(left, wide, size)
    left_of, right_of = (
        mixed.gather(3, at.view(n, 1, 1, size).expand(n, channels, size, size))
        for at in (low, high)
    )
    return _between(left_of, right_of, share.view(n, 1, 1, size))


def rotate(images: Tensor, random: Tensor, most: float) -> Tensor:
    """Each image turned about its centre by one of 4,096 angles up to ``most`` degrees either way, bilinear."""
    n, channels, height, width = images.shape
    cos, sin = _turns(most).to(images.device)[:, below(random, STEPS)].view(2, n, 1, 1)
    y = (torch.arange(height, device=images.device) - (height - 1) / 2).view(1, height, 1)
    x = (torch.arange(width, device=images.device) - (width - 1) / 2).view(1, 1, width)
    from_y = y * cos - x * sin + (height - 1) / 2
    from_x = y * sin + x * cos + (width - 1) / 2
    padded = pad(images, 1).flatten(2)  # a black frame, onto which everything outside is sent
    from_y, from_x = from_y.clamp(-1, height) + 1, from_x.clamp(-1, width) + 1
    top, left = from_y.floor().clamp(max=height), from_x.floor().clamp(max=width)
    at = (top.long() * (width + 2) + left.long()).flatten(1).unsqueeze(1).expand(n, channels, -1)
    corners = [
        padded.gather(2, at + step).view(images.shape) for step in (0, 1, width + 2, width + 3)
    ]
    down, right = (from_y - top).unsqueeze(1), (from_x - left).unsqueeze(1)
    return _between(
        _between(corners[0], corners[1], right), _between(corners[2], corners[3], right), down
    )


def log_uniform(random: Tensor, between: tuple[float, float]) -> Tensor:
    """One of 4,096 numbers for each entry, their logarithms equally distant, float64."""
    return _exponentials(*between).to(random.device)[below(random, STEPS)]


def below_each(random: Tensor, count: Tensor) -> Tensor:
    """As :func:`below`, with a count of its own for each entry."""
    return (((random >> 33) & (2**31 - 1)) * count) >> 31


def _samples(start: Tensor, length: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """For each of ``size`` samples of a stretch.

    The two pixels around it, and its share of the second. (n, size).
    """
    start, length = start.unsqueeze(1), length.unsqueeze(1)
    at = ((torch.arange(size, device=start.device) + 0.5) * (length.double() / size) - 0.5).clamp(
        min=0
    )
    low = at.floor().long()
    high = torch.minimum(low + 1, length - 1)
    return start + low, start + high, (at - low).float()


def _between(first: Tensor, second: Tensor, share: Tensor) -> Tensor:
    return (
        first * (1 - share) + second * share
    )  # three roundings, wherever in a batch; lerp may fuse some


def _unit(pixels: Tensor) -> Tensor:
    return pixels.float() / 255 if pixels.dtype == torch.uint8 else pixels


@lru_cache
def _turns(most: float) -> Tensor:
    """Cosines and sines of equally distant angles. (2, STEPS)."""
    angles = [math.radians(most) * (2 * step / (STEPS - 1) - 1) for step in range(STEPS)]
    return torch.tensor(
        [[math.cos(angle) for angle in angles], [math.sin(angle) for angle in angles]]
    )


@lru_cache
def _exponentials(low: float, high: float) -> Tensor:
    start, width = math.log(low), math.log(high) - math.log(low)
    return torch.tensor(
        [math.exp(start + width * step / (STEPS - 1)) for step in range(STEPS)], dtype=torch.float64
    )
