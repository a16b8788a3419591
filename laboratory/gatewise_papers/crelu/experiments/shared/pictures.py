"""Many small images as one."""

import torch
from torch import Tensor

from gatewise_papers.common import Picture


def mosaic(title: str, images: Tensor, columns: int) -> Picture:
    """Return the images in rows, white between them.

    Args:
        title: of the picture.
        images: (n, 3, h, w), from 0 to 1.
        columns: images in a row.
    """
    count, channels, height, width = images.shape
    rows = -(-count // columns)
    canvas = torch.ones(channels, rows * (height + 1) - 1, columns * (width + 1) - 1)
    for place, image in enumerate(images):
        top = place // columns * (height + 1)
        left = place % columns * (width + 1)
        canvas[:, top : top + height, left : left + width] = image
    return Picture(title, canvas.permute(1, 2, 0).tolist())


def centred(images: Tensor) -> Tensor:
    """Scale each image (n, ...) by its own largest number, so that 0 is grey: 0.5."""
    largest = images.flatten(1).abs().amax(1).clamp(min=1e-12)
    return 0.5 + images / (2 * largest.reshape(-1, *[1] * (images.dim() - 1)))
