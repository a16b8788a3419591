"""Labels of dense prediction: a class for every pixel, or boxes with a class each.

Note [Labels of boxes]. The labels of an image are rows of eight float32 numbers, as many rows as
the image with the most objects has. ``BOX``: left, top, right and bottom edge in pixels; an object
that covers one pixel has a box of one pixel. ``CLASS``: from 0 on; ``NO_OBJECT`` in rows that only
fill up. ``AREA``: of the object in pixels of the published image. ``CROWD``: 1 if the box surrounds
a crowd, which is neither trained on nor counted as missed. ``SCALE``: pixels here for each pixel of
the published image.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

LEFT = 0
RIGHT = 2
BOX = slice(0, 4)
CLASS = 4
AREA = 5
CROWD = 6
SCALE = 7
COLUMNS = 8
NO_OBJECT = -1.0
IGNORED = 255  # the class of pixels that do not count


def mirror_masks(labels: Tensor) -> Tensor:
    """Return classes of pixels, (n, height, width), mirrored left to right."""
    return labels.flip(-1)


def mirror_boxes(labels: Tensor, width: int) -> Tensor:
    """Return labels of boxes, (n, rows, 8), mirrored left to right in images of that width."""
    mirrored = labels.clone()
    objects = labels[..., CLASS] != NO_OBJECT
    mirrored[..., LEFT] = torch.where(objects, width - labels[..., RIGHT], labels[..., LEFT])
    mirrored[..., RIGHT] = torch.where(objects, width - labels[..., LEFT], labels[..., RIGHT])
    return mirrored


def fill_up(rows: Sequence[Sequence[Sequence[float]]], scales: Sequence[float]) -> Tensor:
    """Return labels of boxes, (n, most rows of an image, 8); see Note [Labels of boxes].

    Args:
        rows: for each image the rows of its objects.
        scales: of the images.
    """
    most = max([1, *(len(objects) for objects in rows)])
    labels = torch.zeros(len(rows), most, COLUMNS)
    labels[..., CLASS] = NO_OBJECT
    labels[..., SCALE] = torch.tensor(scales, dtype=torch.float32).view(-1, 1)
    for place, objects in enumerate(rows):
        if objects:
            labels[place, : len(objects)] = torch.tensor(objects, dtype=torch.float32)
    return labels
