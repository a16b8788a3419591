"""Images and filters as bytes in plain text, small enough for a page."""

import base64
from typing import Any

import torch
from torch import Tensor

LARGEST = 96  # pixels along a side; larger images are averaged down


def picture(
    image: Tensor, *, low: float | None = None, high: float | None = None
) -> dict[str, Any]:
    """Return an image as bytes from 0 to 255.

    Args:
        image: The image, of shape (1 or 3, height, width).
        low: The value that becomes 0. The smallest value of the image by default.
        high: The value that becomes 255. The largest value of the image by default.
    """
    image = _shrunk(image)
    low = float(image.min()) if low is None else low
    high = float(image.max()) if high is None else high
    scaled = (image - low) / max(high - low, 1e-12)
    return _packed(scaled.clamp(0, 1))


def signed_picture(image: Tensor) -> dict[str, Any]:
    """Return a filter or a template as bytes, with zero in the middle of the scale."""
    image = _shrunk(image)
    largest = max(float(image.abs().max()), 1e-12)
    return _packed(0.5 + image / (2 * largest))


def _shrunk(image: Tensor) -> Tensor:
    image = image.detach().double().cpu()
    factor = -(-max(image.shape[1:]) // LARGEST)
    if factor == 1:
        return image
    return torch.nn.functional.avg_pool2d(image[None], factor, ceil_mode=True)[0]


def _packed(image: Tensor) -> dict[str, Any]:
    pixels = image.mul(255).round().to(torch.uint8).permute(1, 2, 0).contiguous()
    height, width, channels = pixels.shape
    data = base64.b64encode(pixels.numpy().tobytes()).decode()
    return {"height": height, "width": width, "channels": channels, "bytes": data}
