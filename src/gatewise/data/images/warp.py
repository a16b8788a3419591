"""Move the pixels of each image in its own way, by indexing and by bilinear interpolation."""

import torch
from torch import Tensor
from torch.nn import functional as F

from gatewise.errors import ArgumentError

BORDERS = ("black", "reflect")


def pad(images: Tensor, by: int, border: str = "black") -> Tensor:
    """Return the images with ``by`` more pixels on each side.

    Args:
        images: (n, c, h, w).
        by: how many.
        border: ``"black"``, or ``"reflect"`` for the image mirrored at its edge; then ``by`` is
            smaller than the image.
    """
    if border == "black":
        return F.pad(images, (by, by, by, by))
    height, width = images.shape[-2:]
    if by >= min(height, width):
        raise ArgumentError(
            "border: an image cannot be mirrored that far",
            got=by,
            allowed=f"< {min(height, width)}",
        )
    # By joining parts, because torch does not mirror integers.
    return _mirrored(_mirrored(images, by, -1), by, -2)


def _mirrored(images: Tensor, by: int, axis: int) -> Tensor:
    """Return the images with ``by`` more pixels before and after, mirrored at the outermost one."""
    size = images.shape[axis]
    before = images.narrow(axis, 1, by).flip(axis)
    after = images.narrow(axis, size - 1 - by, by).flip(axis)
    return torch.cat([before, images, after], axis)


def window(images: Tensor, top: Tensor, left: Tensor, height: int, width: int) -> Tensor:
    """Return the rectangle of each image that begins at (top, left).

    Shape: ``(n, c, h, w), (n), (n) -> (n, c, height, width)``.
    """
    every = images.unfold(2, height, 1).unfold(3, width, 1)  # a view: all rectangles of that size
    return every[torch.arange(len(images), device=images.device), :, top, left]


def resize(
    images: Tensor,
    top: Tensor,
    left: Tensor,
    tall: Tensor,
    wide: Tensor,
    size: int,
) -> Tensor:
    """Return a rectangle of each image, resized to a square by bilinear interpolation, as float32.

    Corners are not aligned: the outermost sample is half a new pixel from the edge. uint8 is
    divided by 255.

    Args:
        images: (n, c, h, w).
        top: (n) first row of the rectangle.
        left: (n) first column.
        tall: (n) number of rows.
        wide: (n) number of columns.
        size: side of the square.

    Returns:
        (n, c, size, size).
    """
    height, width = images.shape[-2:]
    y = _samples(top, tall, size, height).view(-1, size, 1)
    x = _samples(left, wide, size, width).view(-1, 1, size)
    grid = torch.stack(torch.broadcast_tensors(x, y), 3)
    return F.grid_sample(as_float(images), grid, padding_mode="border", align_corners=False)


def rotate(images: Tensor, degrees: Tensor) -> Tensor:
    """Return each image turned about its centre, bilinear, with black from outside.

    Args:
        images: (n, c, h, w), float.
        degrees: (n) the angles.
    """
    if not len(images):  # affine_grid refuses an empty batch
        return images
    height, width = images.shape[-2:]
    angle = torch.deg2rad(degrees.double())
    cos, sin, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    # affine_grid counts in half widths and half heights, x first.
    rows = (cos, sin * height / width, zero, -sin * width / height, cos, zero)
    theta = torch.stack(rows, 1).view(-1, 2, 3).to(images)
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


def as_float(images: Tensor) -> Tensor:
    """Return the images as float32; uint8 is divided by 255."""
    if images.dtype == torch.uint8:
        return images.float() / 255
    return images


def _samples(start: Tensor, length: Tensor, size: int, whole: int) -> Tensor:
    """Return where to sample, from -1 at the first edge of the image to 1 at the last: (n, size).

    The samples are equally spaced over ``length`` of ``whole`` pixels from ``start`` on. None is
    outside of the centres of these pixels, so that no pixel beside them is mixed in.
    """
    centres = (torch.arange(size, device=start.device) + 0.5) / size
    length = length.unsqueeze(1)
    inside = (centres.double() * length).clamp(0.5)
    at = start.unsqueeze(1) + torch.minimum(inside, length - 0.5)
    return (2 * at / whole - 1).float()
