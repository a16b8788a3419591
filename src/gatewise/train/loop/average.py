"""A moving average of the weights, which is evaluated and kept in their place."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


def start_average(model: nn.Module) -> dict[str, Tensor]:
    """A copy of weights and buffers, to average from."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


@torch.no_grad()
def update_average(average: dict[str, Tensor], model: nn.Module, decay: float) -> None:
    """``decay`` of the old and the rest of the new.

    Whole numbers, as batch norm counts with, are the new ones.
    """
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point():
            average[name].lerp_(tensor, 1 - decay)
        else:
            average[name].copy_(tensor)


@contextmanager
def averaged(model: nn.Module, average: dict[str, Tensor] | None) -> Iterator[None]:
    """The model with the averaged weights for the block, and then with its own again."""
    if average is None:
        yield
        return
    own = start_average(model)
    model.load_state_dict(average)
    try:
        yield
    finally:
        model.load_state_dict(own)
