"""Crops that are chosen, not drawn: from the centre, and the ten of a test."""

import torch
from torch import Tensor

from gatewise.errors import ArgumentError


def centre_crop(images: Tensor, size: int) -> Tensor:
    """The middle of each image; where the rest is odd, its larger part is below and to the right.

    Shape: ``(n, channels, height, width) -> (n, channels, size, size)``.
    """
    height, width = check_size(images, size)
    top, left = (height - size) // 2, (width - size) // 2
    return images[..., top : top + size, left : left + size]


def ten_crop(images: Tensor, size: int) -> Tensor:
    """The four corners and the centre of each image, then the mirror images of these five.

    Shape: ``(n, channels, height, width) -> (n, 10, channels, size, size)``.
    """
    height, width = check_size(images, size)
    places = [(top, left) for top in (0, height - size) for left in (0, width - size)]
    corners = [images[..., top : top + size, left : left + size] for top, left in places]
    five = torch.stack([*corners, centre_crop(images, size)], dim=1)
    return torch.cat([five, five.flip(-1)], dim=1)


def check_images(images: object) -> Tensor:
    """``images`` if they are a batch of images in a type that images have."""
    kinds = (torch.uint8, torch.float32)
    if (
        not isinstance(images, Tensor)
        or images.dim() != 4
        or images.dtype not in kinds
        or 0 in images.shape[1:]
    ):
        got = (
            f"{images.dtype} {tuple(images.shape)}"
            if isinstance(images, Tensor)
            else type(images).__name__
        )
        raise ArgumentError(
            "images are a batch",
            got=got,
            allowed="uint8 or float32 (n, channels, height, width)",
            fix="images.unsqueeze(0) makes a batch of one",
        )
    return images


def check_size(images: Tensor, size: object) -> tuple[int, int]:
    """Height and width of ``images``, if a square of ``size`` can be cut out of them."""
    height, width = check_images(images).shape[-2:]
    if type(size) is not int or not 1 <= size <= min(height, width):
        raise ArgumentError(
            "size is that of a square within the image",
            got=size,
            allowed=f"1 .. {min(height, width)}",
        )
    return height, width
