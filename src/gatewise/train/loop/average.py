"""A moving average of the weights, which is evaluated and saved in their place."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


def start_average(model: nn.Module) -> dict[str, Tensor]:
    """Return a copy of weights and buffers, from which averaging starts."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


@torch.no_grad()
def update_average(average: dict[str, Tensor], model: nn.Module, decay: float) -> None:
    """Update the average in place; integers, such as the counter of batch norm, are copied.

    Args:
        average: by name.
        model: the network after a step.
        decay: the share of the old average that is kept.
    """
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point():
            average[name].lerp_(tensor, 1 - decay)
        else:
            average[name].copy_(tensor)


@contextmanager
def averaged(model: nn.Module, average: dict[str, Tensor] | None) -> Iterator[None]:
    """Give the model the averaged weights for the block, and then its own again."""
    if average is None:
        yield
        return
    weights = start_average(model)
    model.load_state_dict(average)
    try:
        yield
    finally:
        model.load_state_dict(weights)
