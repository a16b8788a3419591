"""Boxes in plain torch: overlaps, anchors, offsets between boxes, and non-maximum suppression.

A box is left, top, right and bottom edge in pixels.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

# Largest logarithm of a ratio of sides, as in other implementations: larger ones would overflow.
LARGEST_LOG = math.log(1000 / 16)
SCALES = tuple(4 * 2 ** (step / 3) for step in range(3))  # of anchors, in strides
RATIOS = (0.5, 1.0, 2.0)  # height over width
ANCHORS = len(SCALES) * len(RATIOS)  # at each position


def box_iou(boxes: Tensor, others: Tensor) -> Tensor:
    """Return intersection over union of every pair; 0 if both are empty.

    Shape: ``(n, 4), (m, 4) -> (n, m)``.
    """
    low = torch.maximum(boxes[:, None, :2], others[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], others[None, :, 2:])
    both = (high - low).clamp(min=0).prod(2)
    union = _areas(boxes)[:, None] + _areas(others)[None, :] - both
    return torch.where(union > 0, both / union, torch.zeros_like(union))


def anchor_boxes(height: int, width: int, strides: Sequence[int]) -> Tensor:
    """Return the anchors of all levels, level by level, row by row: (anchors, 4).

    At each position there are nine: three sizes, each in three shapes of the same area. Position i
    of a level is centred at i times its stride.

    Args:
        height: of the image.
        width: of the image.
        strides: pixels between the positions of each level.
    """
    shapes = []
    for ratio in RATIOS:
        for scale in SCALES:
            wide, high = scale / math.sqrt(ratio), scale * math.sqrt(ratio)
            shapes.append((-wide / 2, -high / 2, wide / 2, high / 2))
    around = torch.tensor(shapes, dtype=torch.float32)
    levels = []
    for stride in strides:
        y, x = torch.meshgrid(
            torch.arange(-(-height // stride)), torch.arange(-(-width // stride)), indexing="ij"
        )
        centres = stride * torch.stack([x, y, x, y], 2).float()
        levels.append((centres.unsqueeze(2) + stride * around).reshape(-1, 4))
    return torch.cat(levels)


def box_offsets(boxes: Tensor, anchors: Tensor) -> Tensor:
    """Return the offsets that turn anchors into boxes, (n, 4).

    The offsets are those of the centre in sides of the anchor, and logarithms of ratios of sides.
    """
    centre, side = _centre_and_side(boxes)
    from_centre, from_side = _centre_and_side(anchors)
    return torch.cat([(centre - from_centre) / from_side, (side / from_side).log()], 1)


def moved_boxes(offsets: Tensor, anchors: Tensor) -> Tensor:
    """Return the anchors moved by offsets, (n, 4): the inverse of :func:`box_offsets`."""
    from_centre, from_side = _centre_and_side(anchors)
    centre = from_centre + offsets[:, :2] * from_side
    side = from_side * offsets[:, 2:].clamp(max=LARGEST_LOG).exp()
    return torch.cat([centre - side / 2, centre + side / 2], 1)


def suppress(boxes: Tensor, scores: Tensor, groups: Tensor, *, overlap: float) -> Tensor:
    """Return the places of boxes that no better box of the same group covers, best first.

    Boxes are taken in falling order of their scores. One is dropped if its intersection over union
    with a box that was taken is above ``overlap``.

    Args:
        boxes: (n, 4).
        scores: (n,).
        groups: (n,): boxes of different groups, for example classes, do not suppress each other.
        overlap: the largest allowed intersection over union.
    """
    ranked = scores.argsort(descending=True, stable=True)
    boxes, groups = boxes[ranked], groups[ranked]
    covers = (box_iou(boxes, boxes) > overlap) & (groups[:, None] == groups[None, :])
    alive = torch.ones(len(boxes), dtype=torch.bool, device=boxes.device)
    for place in range(len(boxes)):
        if alive[place]:
            alive[place + 1 :] &= ~covers[place, place + 1 :]
    return ranked[alive]


def _areas(boxes: Tensor) -> Tensor:
    """Return the areas of boxes, (n,)."""
    return (boxes[:, 2:] - boxes[:, :2]).clamp(min=0).prod(1)


def _centre_and_side(boxes: Tensor) -> tuple[Tensor, Tensor]:
    """Return centres and sides of boxes, (n, 2) each."""
    return (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
