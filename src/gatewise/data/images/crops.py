"""Crops at fixed places: the centre, and the ten crops of a test."""

import torch
from torch import Tensor

from gatewise.errors import ArgumentError


def centre_crop(images: Tensor, size: int) -> Tensor:
    """Return the centre of each image.

    If the rest is odd, its larger part is below and to the right.

    Shape: ``(n, channels, height, width) -> (n, channels, size, size)``.
    """
    height, width = check_size(images, size)
    top = (height - size) // 2
    left = (width - size) // 2
    return images[..., top : top + size, left : left + size]


def ten_crop(images: Tensor, size: int) -> Tensor:
    """Return the four corners and the centre of each image, then the mirror images of these five.

    Shape: ``(n, channels, height, width) -> (n, 10, channels, size, size)``.
    """
    height, width = check_size(images, size)
    crops = []
    for top in (0, height - size):
        for left in (0, width - size):
            crops.append(images[..., top : top + size, left : left + size])
    five = torch.stack([*crops, centre_crop(images, size)], dim=1)
    return torch.cat([five, five.flip(-1)], dim=1)


def check_images(images: object) -> Tensor:
    """Return ``images``; raise an error unless they are a batch of uint8 or float32 images."""
    got = type(images).__name__
    if isinstance(images, Tensor):
        got = f"{images.dtype} {tuple(images.shape)}"
        fits = images.dim() == 4 and 0 not in images.shape[1:]
        if fits and images.dtype in (torch.uint8, torch.float32):
            return images
    raise ArgumentError(
        "images must be a batch",
        got=got,
        allowed="uint8 or float32 (n, channels, height, width)",
        fix="images.unsqueeze(0) makes a batch of one",
    )


def check_size(images: Tensor, size: object) -> tuple[int, int]:
    """Return height and width of ``images``; raise an error if ``size`` does not fit."""
    height, width = check_images(images).shape[-2:]
    if type(size) is not int or not 1 <= size <= min(height, width):
        raise ArgumentError(
            "size must be that of a square within the image",
            got=size,
            allowed=f"1 .. {min(height, width)}",
        )
    return height, width
