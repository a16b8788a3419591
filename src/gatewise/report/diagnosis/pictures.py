"""Pictures in a diagnosis: from bytes in text to pixels."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gatewise.errors import ArgumentError

LARGEST = 4096  # pixels along a side
GAP = 4  # pixels between pictures side by side


def pixels_of(packed: Mapping[str, Any]) -> np.ndarray:
    """Return the pixels of a packed picture.

    Returns:
        Bytes of shape ``height x width`` or ``height x width x 3``.

    Raises:
        ArgumentError: If the size is impossible, or the number of bytes does not fit it.
    """
    height = packed["height"]
    width = packed["width"]
    channels = packed["channels"]
    for side in (height, width):
        if type(side) is not int or not 0 < side <= LARGEST or channels not in (1, 3):
            raise ArgumentError(
                "page: a picture has an impossible size", got=f"{height} x {width} x {channels}"
            )
    data = np.frombuffer(base64.b64decode(packed["bytes"], validate=True), dtype=np.uint8)
    if data.size != height * width * channels:
        raise ArgumentError(
            "page: a picture is not complete",
            got=f"{data.size} bytes",
            allowed=height * width * channels,
        )
    return data.reshape((height, width) if channels == 1 else (height, width, 3))


def beside(pictures: Sequence[np.ndarray], scale: int) -> np.ndarray:
    """Return pictures of one height in a row, with a narrow white line between them.

    Args:
        pictures: The pixels of each picture.
        scale: How wide each pixel is in the result.
    """
    parts: list[np.ndarray] = []
    for picture in pictures:
        large = picture.repeat(scale, 0).repeat(scale, 1)
        parts += [large, np.full_like(large[:, :GAP], 255)]
    return np.concatenate(parts[:-1], axis=1)
