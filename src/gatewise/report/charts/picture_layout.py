"""Pixels to a picture inside the page."""

import base64
from dataclasses import dataclass
from io import BytesIO

import numpy as np

from gatewise.errors import ArgumentError
from gatewise.report.charts.records import Picture

LARGEST = 4_000_000  # pixels: a page is read in a browser


@dataclass(frozen=True)
class PictureLayout:
    """A picture as an address that holds its bytes, and its size on the page."""

    picture: Picture
    address: str
    width: int
    height: int
    kind: str = "picture"


def lay_out_picture(picture: Picture) -> PictureLayout:
    """The picture as PNG, in a ``data:`` address."""
    pixels = _checked(picture.pixels)
    high, wide = pixels.shape[:2]
    address = "data:image/png;base64," + base64.b64encode(png(pixels)).decode()
    return PictureLayout(picture, address, wide * picture.scale, high * picture.scale)


def png(pixels: np.ndarray) -> bytes:
    """The bytes of a PNG file that holds ``pixels`` exactly."""
    from PIL import Image

    out = BytesIO()
    Image.fromarray(pixels).save(out, "png")
    return out.getvalue()


def _checked(given: object) -> np.ndarray:
    pixels = np.asarray(given)
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
    return np.ascontiguousarray(pixels, dtype=np.uint8)
