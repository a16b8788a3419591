"""Pictures in a diagnosis: bytes in text, back to pixels."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gatewise.errors import ArgumentError

LARGEST = 4096  # pixels along a side
GAP = 4  # pixels between pictures side by side


def pixels_of(packed: Mapping[str, Any]) -> np.ndarray:
    """``height x width`` or ``height x width x 3`` bytes."""
    height, width, channels = (packed[name] for name in ("height", "width", "channels"))
    if not all(
        type(each) is int and 0 < each <= LARGEST for each in (height, width)
    ) or channels not in (1, 3):
        raise ArgumentError(
            "page: a picture has no such size", got=f"{height} x {width} x {channels}"
        )
    data = np.frombuffer(base64.b64decode(packed["bytes"], validate=True), dtype=np.uint8)
    if data.size != height * width * channels:
        raise ArgumentError(
            "page: a picture is not whole",
            got=f"{data.size} bytes",
            allowed=height * width * channels,
        )
    return data.reshape((height, width) if channels == 1 else (height, width, 3))


def beside(pictures: Sequence[np.ndarray], scale: int) -> np.ndarray:
    """Pictures of one height in a row, each pixel ``scale`` wide, a narrow white line between."""
    parts: list[np.ndarray] = []
    for each in pictures:
        large = each.repeat(scale, 0).repeat(scale, 1)
        parts += [large, np.full_like(large[:, :GAP], 255)]
    return np.concatenate(parts[:-1], axis=1)
