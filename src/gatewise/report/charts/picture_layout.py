"""Pixels to an image inside the page."""

import base64
from dataclasses import dataclass
from io import BytesIO

import numpy as np

from gatewise.errors import ArgumentError
from gatewise.report.charts.records import Picture

LARGEST = 4_000_000  # pixels: a browser shows a page of larger images too slowly


@dataclass(frozen=True)
class PictureLayout:
    """An image as a ``data:`` address that holds its bytes, and its size on the page."""

    picture: Picture
    pixels: np.ndarray
    width: int
    height: int

    @property
    def address(self) -> str:
        """The image as a PNG file in a ``data:`` address."""
        from PIL import Image

        out = BytesIO()
        Image.fromarray(self.pixels).save(out, "png")
        return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


def lay_out_picture(picture: Picture) -> PictureLayout:
    """Return the checked pixels of a picture and its size on the page."""
    pixels = np.asarray(picture.pixels)
    right_shape = pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] == 3)
    if not right_shape or not 0 < pixels.size <= 3 * LARGEST or pixels.dtype.kind not in "iu":
        raise ArgumentError(
            "picture: cannot be drawn",
            got=f"{pixels.shape} {pixels.dtype}",
            allowed=f"H x W or H x W x 3 whole numbers, at most {LARGEST} pixels",
        )
    if pixels.min() < 0 or pixels.max() > 255:
        raise ArgumentError(
            "picture: a pixel is outside 0 to 255", got=[int(pixels.min()), int(pixels.max())]
        )
    height, width = pixels.shape[:2]
    data = np.ascontiguousarray(pixels, dtype=np.uint8)
    return PictureLayout(picture, data, width * picture.scale, height * picture.scale)
