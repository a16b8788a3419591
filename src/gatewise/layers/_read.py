"""Reading a number out of a tensor, where that can be done."""

import torch
from torch import Tensor


def read(value: Tensor) -> bool | int | None:
    """A one-element tensor as a Python number, or ``None`` where it has none: traced, batched by vmap, on meta."""
    if torch.compiler.is_compiling():
        return None
    try:
        number = value.item()
    except RuntimeError:
        return None
    return number if isinstance(number, bool | int) else None  # a tracer's symbol is neither
