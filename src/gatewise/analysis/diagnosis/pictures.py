"""Images and filters as bytes in plain text, small enough for a page."""

import base64
from typing import Any

import torch
from torch import Tensor

LARGEST = 96  # pixels along a side: more is averaged


def picture(
    image: Tensor, *, low: float | None = None, high: float | None = None
) -> dict[str, Any]:
    """An image (1 or 3, height, width) scaled from ``low``..``high``, its own ends unless given, to bytes."""
    image = _shrunk(image.detach().double().cpu())
    low = float(image.min()) if low is None else low
    high = float(image.max()) if high is None else high
    scaled = ((image - low) / max(high - low, 1e-12)).clamp(0, 1)
    return _packed(scaled)


def signed(image: Tensor) -> dict[str, Any]:
    """An image about zero, which is the middle of the scale: a filter or a template."""
    image = _shrunk(image.detach().double().cpu())
    largest = max(float(image.abs().max()), 1e-12)
    return _packed(0.5 + image / (2 * largest))


def _shrunk(image: Tensor) -> Tensor:
    factor = -(-max(image.shape[1:]) // LARGEST)
    if factor == 1:
        return image
    return torch.nn.functional.avg_pool2d(image[None], factor, ceil_mode=True)[0]


def _packed(image: Tensor) -> dict[str, Any]:
    pixels = image.mul(255).round().to(torch.uint8).permute(1, 2, 0).contiguous()
    height, width, channels = pixels.shape
    data = base64.b64encode(bytes(pixels.flatten().tolist())).decode()
    return {"height": height, "width": width, "channels": channels, "bytes": data}
