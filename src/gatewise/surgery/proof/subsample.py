"""Choose the part of an example that a long proof runs on."""

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gatewise.graph import example_tensors
from gatewise.surgery.proof.running import batch_size, each_tensor, first_of

MUCH = 2e9  # operations of one pass, above which most of the proof runs on a part of the example
# Pixels. In smaller images, the last feature maps often have one element, with which batch norm
# cannot train.
LEAST = 48


@dataclass(frozen=True)
class Part:
    """A part of an example.

    Attributes:
        example: The part.
        words: Which part it is. Empty for the whole example.
    """

    example: Any
    words: str = ""


def parts(example: Any, operations: int) -> list[Part]:
    """Return the parts to try: the smallest first, the whole example last.

    Args:
        example: The example.
        operations: The operations of one pass on it, more than ``MUCH``.
    """
    whole = Part(example)
    batch = batch_size(example)
    if batch is None:
        return [whole]
    one = Part(first_of(example), "the first of the batch")
    steps = _halvings(example, operations / batch)
    if not steps:
        return [one, whole]
    cut = each_tensor(
        one.example, lambda value: _middle(value, 2**steps) if _is_image(value) else value
    )
    sides = dict.fromkeys("x".join(map(str, image.shape[2:])) for image in _images(cut))
    words = f"the middle {' and '.join(sides)} of the first of the batch"
    return [Part(cut, words), one, whole]


def _halvings(example: Any, operations: float) -> int:
    """Return how often images are halved until a pass is short, or until they are small."""
    least = min((min(image.shape[2:]) for image in _images(example)), default=0)
    short = math.ceil(math.log(max(1.0, operations / MUCH), 4))
    return min(short, int(math.log2(max(1.0, least / LEAST))))


def _images(example: Any) -> list[Tensor]:
    return [tensor for tensor in example_tensors(example) if _is_image(tensor)]


def _is_image(value: Tensor) -> bool:
    return value.is_floating_point() and value.dim() == 4


def _middle(value: Tensor, divisor: int) -> Tensor:
    """Return the middle of images: ``(N, C, H, W) -> (N, C, H / divisor, W / divisor)``."""
    for dim in (2, 3):
        size = max(1, value.shape[dim] // divisor)
        value = value.narrow(dim, (value.shape[dim] - size) // 2, size)
    return value.contiguous()
