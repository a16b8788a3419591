"""The order in which examples are used, as a function of seed and epoch."""

import torch
from torch import Tensor

from gatewise.data.hashing import bits
from gatewise.errors import ArgumentError


def order(count: int, *, seed: int, epoch: int) -> Tensor:
    """Return the indices 0 to ``count - 1``, int64, in a random order.

    The order depends on ``seed`` and ``epoch`` alone.

    Args:
        count: number of examples.
        seed: of the run.
        epoch: number of the epoch.
    """
    if type(count) is not int or count < 0:
        raise ArgumentError(
            "count must be the number of examples",
            got=count,
            allowed="an integer from 0",
        )
    return shuffled(count, stream="order", seed=seed, epoch=epoch)


def shuffled(count: int, *, stream: str, seed: int = 0, epoch: int = 0) -> Tensor:
    """Return the indices sorted by their hashes, no two of which are equal."""
    return bits(torch.arange(count), stream=stream, seed=seed, epoch=epoch)[0].argsort()
