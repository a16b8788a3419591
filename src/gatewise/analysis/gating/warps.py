"""Flips, rotations, shifts and crops of images, as affine maps that also say where each place goes."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

from gatewise.errors import ArgumentError

Warps = Mapping[
    str, Tensor
]  # name: (2, 3), where an output's place (in -1 to 1, pixels as areas) is read from


def standard_warps(height: int, width: int) -> dict[str, Tensor]:
    """A horizontal flip, a clockwise rotation by 15 degrees, and shifts by 3 pixels left, right, up and down."""
    angle = math.radians(15)
    cos, sin, ratio = math.cos(angle), math.sin(angle), height / width
    across, along = 2 * 3 / width, 2 * 3 / height
    rows = {
        "flip": [[-1, 0, 0], [0, 1, 0]],
        "rotate": [
            [cos, sin * ratio, 0],
            [-sin / ratio, cos, 0],
        ],  # a circle stays one if the image is not square
        "left": [[1, 0, across], [0, 1, 0]],
        "right": [[1, 0, -across], [0, 1, 0]],
        "up": [[1, 0, 0], [0, 1, along]],
        "down": [[1, 0, 0], [0, 1, -along]],
    }
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in rows.items()}


def corner_crops(share: float = 0.875) -> dict[str, Tensor]:
    """A flip, a rotation by 15 degrees, and crops of ``share`` of height and width at the corners, scaled up again.

    For square images.
    """
    if not 0 < share < 1:
        raise ArgumentError(
            "corner_crops: share must be a part of the side", got=share, allowed="0 < share < 1"
        )
    kept = {name: warp for name, warp in standard_warps(1, 1).items() if name in ("flip", "rotate")}
    for name, (x, y) in {
        "top left": (-1, -1),
        "top right": (1, -1),
        "bottom left": (-1, 1),
        "bottom right": (1, 1),
    }.items():
        kept[name] = torch.tensor(
            [[share, 0, x * (1 - share)], [0, share, y * (1 - share)]], dtype=torch.float64
        )
    return kept


def warp(images: Tensor, theta: Tensor, mode: str) -> Tensor:
    """``images`` (n, C, h, w) read through the map; what lies outside is 0."""
    grid = F.affine_grid(theta.to(images)[None], [1, 1, *images.shape[2:]], align_corners=False)
    grid = grid.expand(len(images), -1, -1, -1)
    return F.grid_sample(images, grid, mode=mode, padding_mode="zeros", align_corners=False)


def check_warps(what: str, transforms: object) -> dict[str, Tensor]:
    """``transforms`` if they are named maps of shape (2, 3)."""
    if not isinstance(transforms, Mapping) or not transforms:
        raise ArgumentError(
            f"{what}: transforms must be affine maps by name",
            got=type(transforms).__name__,
            allowed="a dict of tensors of shape (2, 3), as torch.nn.functional.affine_grid takes",
        )
    for name, theta in transforms.items():
        if (
            not isinstance(theta, Tensor)
            or theta.shape != (2, 3)
            or not bool(theta.isfinite().all())
        ):
            raise ArgumentError(
                f"{what}: the transform {name!r} is not an affine map", got=theta, allowed="(2, 3)"
            )
    return dict(transforms)
