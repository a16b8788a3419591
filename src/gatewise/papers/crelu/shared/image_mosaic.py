"""Many small images as one."""

import torch
from torch import Tensor

from gatewise.papers.common import Picture


def mosaic(title: str, images: Tensor, columns: int) -> Picture:
    """``images`` (n, 3, h, w), from 0 to 1, in rows of ``columns``, white between them."""
    count, channels, height, width = images.shape
    rows = -(-count // columns)
    whole = torch.ones(channels, rows * (height + 1) - 1, columns * (width + 1) - 1)
    for place, image in enumerate(images):
        top, left = place // columns * (height + 1), place % columns * (width + 1)
        whole[:, top : top + height, left : left + width] = image
    return Picture(title, whole.permute(1, 2, 0).tolist())


def centred(images: Tensor) -> Tensor:
    """Each image (n, ...) scaled by its own largest number, so that 0 is grey: 0.5."""
    largest = images.flatten(1).abs().amax(1).clamp(min=1e-12)
    return 0.5 + images / (2 * largest.reshape(-1, *[1] * (images.dim() - 1)))
