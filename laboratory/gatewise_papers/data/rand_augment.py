"""RandAugment and random erasing, drawn for every image."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gatewise.checks import check_number
from gatewise.data import AUGMENT_STEPS, AugmentStep, below, rotate
from gatewise.errors import ArgumentError

LARGEST = 30  # magnitudes are 0 to 30
SHEAR = 0.3
TRANSLATION = 150 / 331  # of the width or height
ROTATION = 30.0  # degrees
ENHANCEMENT = 0.9  # how far from 1 the factor of a colour is
LOST_BITS = 4
GREY = (0.299, 0.587, 0.114)
LEVELS = 256
# Area and aspect ratio of the erased rectangle.
ERASED_AREA = (0.02, 1 / 3)
ERASED_RATIO = (0.3, 10 / 3)
ERASED_DRAWS = 5  # numbers: whether, area, ratio, top, left

Operation = Callable[[Tensor, Tensor], Tensor]  # images and signed magnitudes from -1 to 1


def rand_augment(images: Tensor, random: Tensor, strength: tuple[int, int]) -> Tensor:
    """Change each image by a few operations that are drawn for it.

    Args:
        images: (n, c, h, w), float, from 0 to 1.
        random: (2 operations, n) numbers of [0, 1): which one, and its sign.
        strength: how many operations, and their magnitude from 0 to 30.
    """
    _, magnitude = strength
    images = images.clone()
    for which, sign in random.unflatten(0, (-1, 2)):
        chosen = below(which, len(OPERATIONS))
        signed = (magnitude / LARGEST) * torch.where(sign < 0.5, -1.0, 1.0).to(images)
        for place, operation in enumerate(OPERATIONS):
            mask = chosen == place
            if bool(mask.any()):
                images[mask] = operation(images[mask], signed[mask])
    return images


def erase(images: Tensor, random: Tensor, share: float) -> Tensor:
    """Set a random rectangle of some images to 0, which is the mean of normalised images.

    Args:
        images: (n, c, h, w), normalised.
        random: (5, n) numbers of [0, 1).
        share: of the images that are changed.
    """
    height, width = images.shape[-2:]
    low, high = ERASED_AREA
    area = (low + (high - low) * random[1]) * (height * width)
    least, most = map(math.log, ERASED_RATIO)
    ratio = (least + (most - least) * random[2]).exp()
    tall = (area * ratio).sqrt().round().long().clamp(1, height)
    wide = (area / ratio).sqrt().round().long().clamp(1, width)
    top = below(random[3], height - tall + 1)[:, None]
    left = below(random[4], width - wide + 1)[:, None]
    y, x = (torch.arange(size, device=images.device) for size in (height, width))
    rows = (y >= top) & (y < top + tall[:, None])
    columns = (x >= left) & (x < left + wide[:, None])
    gone = rows[:, :, None] & columns[:, None] & (random[0] < share)[:, None, None]
    return images.masked_fill(gone[:, None], 0.0)


def _identity(images: Tensor, _: Tensor) -> Tensor:
    return images


def _shear(axis: int) -> Operation:
    def operation(images: Tensor, signed: Tensor) -> Tensor:
        return _moved(images, axis, 1 - axis, SHEAR * signed)

    return operation


def _translate(axis: int) -> Operation:
    def operation(images: Tensor, signed: Tensor) -> Tensor:
        size = images.shape[-1 - axis]
        pixels = (TRANSLATION * size * signed).trunc()
        return _moved(images, axis, 2, 2 * pixels / size)  # counted in half widths

    return operation


def _moved(images: Tensor, row: int, column: int, by: Tensor) -> Tensor:
    """Return the images under an affine map that has one number besides the identity.

    A shear is in pixels, which affine_grid counts in half widths and half heights.
    """
    height, width = images.shape[-2:]
    theta = torch.eye(2, 3).to(images).repeat(len(images), 1, 1)
    scale = 1.0 if column == 2 else (height / width if row == 0 else width / height)
    theta[:, row, column] = by * scale
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


def _rotate(images: Tensor, signed: Tensor) -> Tensor:
    return rotate(images, ROTATION * signed)


def _mixed(images: Tensor, other: Tensor, signed: Tensor) -> Tensor:
    """Return the images away from or towards others: by a factor of 1 they stay."""
    factor = (1 + ENHANCEMENT * signed).view(-1, 1, 1, 1)
    return (factor * images + (1 - factor) * other).clamp(0, 1)


def _grey(images: Tensor) -> Tensor:
    if images.shape[1] != len(GREY):
        return images.mean(1, keepdim=True)
    weights = images.new_tensor(GREY).view(-1, 1, 1)
    return (images * weights).sum(1, keepdim=True)


def _brightness(images: Tensor, signed: Tensor) -> Tensor:
    return _mixed(images, torch.zeros_like(images), signed)


def _colour(images: Tensor, signed: Tensor) -> Tensor:
    return _mixed(images, _grey(images), signed)


def _contrast(images: Tensor, signed: Tensor) -> Tensor:
    return _mixed(images, _grey(images).mean((2, 3), keepdim=True), signed)


def _sharpness(images: Tensor, signed: Tensor) -> Tensor:
    # The mean of 3x3 pixels with 5 times the middle one. A sum has the same bits in any batch.
    height, width = images.shape[-2:]
    inside = images[..., 1:-1, 1:-1]
    total = 4 * inside
    for top in range(3):
        for left in range(3):
            total = total + images[..., top : height - 2 + top, left : width - 2 + left]
    smooth = images.clone()
    smooth[..., 1:-1, 1:-1] = total / 13
    return _mixed(images, smooth, signed)


def _posterize(images: Tensor, signed: Tensor) -> Tensor:
    lost = (LOST_BITS * signed.abs()).round().view(-1, 1, 1, 1)
    step = 2**lost
    return (_levels(images) / step).floor() * step / (LEVELS - 1)


def _solarize(images: Tensor, signed: Tensor) -> Tensor:
    threshold = (1 - signed.abs()).view(-1, 1, 1, 1)
    return torch.where(images >= threshold, 1 - images, images)


def _autocontrast(images: Tensor, _: Tensor) -> Tensor:
    low = images.amin((2, 3), keepdim=True)
    high = images.amax((2, 3), keepdim=True)
    stretched = (images - low) / torch.where(high > low, high - low, 1.0)
    return torch.where(high > low, stretched, images)


def _equalize(images: Tensor, _: Tensor) -> Tensor:
    """Make the grey values of each channel equally frequent, by the rule of the image library."""
    flat = _levels(images).long().flatten(2)
    counts = torch.zeros(*flat.shape[:2], LEVELS, dtype=torch.long, device=images.device)
    counts.scatter_add_(2, flat, torch.ones_like(flat))
    last = counts.gather(2, flat.amax(2, keepdim=True))  # of the brightest value
    step = (flat.shape[2] - last) // (LEVELS - 1)
    before = counts.cumsum(2) - counts
    table = ((before + step // 2) // step.clamp(min=1)).clamp(0, LEVELS - 1)
    mapped = torch.where(step > 0, table.gather(2, flat), flat)
    return mapped.view(images.shape).to(images) / (LEVELS - 1)


def _levels(images: Tensor) -> Tensor:
    return (images * (LEVELS - 1)).round()


OPERATIONS: tuple[Operation, ...] = (
    _identity,
    _shear(0),
    _shear(1),
    _translate(0),
    _translate(1),
    _rotate,
    _brightness,
    _colour,
    _contrast,
    _sharpness,
    _posterize,
    _solarize,
    _autocontrast,
    _equalize,
)


def _check_strength(value: Any) -> tuple[int, int]:
    if isinstance(value, list | tuple) and len(value) == 2:
        operations, magnitude = value
        if type(operations) is int and type(magnitude) is int:
            if operations >= 1 and 0 <= magnitude <= LARGEST:
                return operations, magnitude
    raise ArgumentError(
        "rand_augment must be a number of operations and a magnitude",
        got=value,
        allowed=f"(operations from 1, magnitude 0 to {LARGEST})",
    )


def _check_share(value: Any) -> float:
    return check_number("augment", "erase", value, least=0.0, most=1.0)


AUGMENT_STEPS["rand_augment"] = AugmentStep(
    _check_strength, lambda strength: 2 * strength[0], rand_augment
)
AUGMENT_STEPS["erase"] = AugmentStep(_check_share, lambda _: ERASED_DRAWS, erase, normalised=True)
