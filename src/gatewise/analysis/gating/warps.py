"""Flips, rotations, shifts and crops of images as affine maps."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

from gatewise.checks import check_number
from gatewise.errors import ArgumentError

SHIFT = 3  # pixels
ANGLE = math.radians(15)
CORNERS = {
    "top left": (-1, -1),
    "top right": (1, -1),
    "bottom left": (-1, 1),
    "bottom right": (1, 1),
}


def standard_warps(height: int, width: int) -> dict[str, Tensor]:
    """Return a horizontal flip, a clockwise rotation by 15 degrees, and shifts by 3 pixels.

    A map (2, 3) says for each position of the output where it is read from, in coordinates from
    -1 to 1, as in :func:`torch.nn.functional.affine_grid`.

    Args:
        height: Of the images, in pixels.
        width: Of the images, in pixels.
    """
    cos = math.cos(ANGLE)
    sin = math.sin(ANGLE)
    ratio = height / width  # a circle stays a circle if the image is not square
    across = 2 * SHIFT / width
    down = 2 * SHIFT / height
    maps = {
        "flip": [[-1, 0, 0], [0, 1, 0]],
        "rotate": [[cos, sin * ratio, 0], [-sin / ratio, cos, 0]],
        "left": [[1, 0, across], [0, 1, 0]],
        "right": [[1, 0, -across], [0, 1, 0]],
        "up": [[1, 0, 0], [0, 1, down]],
        "down": [[1, 0, 0], [0, 1, -down]],
    }
    return {name: torch.tensor(rows, dtype=torch.float64) for name, rows in maps.items()}


def corner_crops(share: float = 0.875) -> dict[str, Tensor]:
    """Return a flip, a rotation by 15 degrees, and crops at the four corners, scaled up again.

    They are for square images.

    Args:
        share: The height and width of a crop, as a share of those of the image.
    """
    check_number("corner_crops", "share", share, above=0, below=1)
    standard = standard_warps(1, 1)
    maps = {"flip": standard["flip"], "rotate": standard["rotate"]}
    for name, (x, y) in CORNERS.items():
        rows = [[share, 0, x * (1 - share)], [0, share, y * (1 - share)]]
        maps[name] = torch.tensor(rows, dtype=torch.float64)
    return maps


def warp(images: Tensor, theta: Tensor, mode: str) -> Tensor:
    """Return transformed images. What is outside of the image is 0.

    Args:
        images: Of shape (n, C, h, w).
        theta: The affine map, of shape (2, 3).
        mode: The interpolation of :func:`torch.nn.functional.grid_sample`.
    """
    grid = F.affine_grid(theta.to(images)[None], [1, 1, *images.shape[2:]], align_corners=False)
    grid = grid.expand(len(images), -1, -1, -1)
    return F.grid_sample(images, grid, mode=mode, padding_mode="zeros", align_corners=False)


def check_warps(analysis: str, transforms: object) -> dict[str, Tensor]:
    """Return ``transforms`` if they are affine maps of shape (2, 3) by name.

    Args:
        analysis: The name of the analysis, for messages.
        transforms: What the caller passed.
    """
    if not isinstance(transforms, Mapping) or not transforms:
        raise ArgumentError(
            f"{analysis}: transforms must be affine maps by name",
            got=type(transforms).__name__,
            allowed="a dict of tensors of shape (2, 3), as torch.nn.functional.affine_grid takes",
        )
    for name, theta in transforms.items():
        fits = isinstance(theta, Tensor) and theta.shape == (2, 3)
        if not fits or not bool(theta.isfinite().all()):
            raise ArgumentError(
                f"{analysis}: the transform {name!r} is not an affine map",
                got=theta,
                allowed="a tensor of shape (2, 3)",
            )
    return dict(transforms)
