"""In which order examples are seen: a function of (seed, epoch), with no generator behind it."""

import torch
from torch import Tensor

from gatewise.data.hashing import bits
from gatewise.errors import ArgumentError


def order(count: int, *, seed: int, epoch: int) -> Tensor:
    """The indices ``0 .. count - 1`` in a random order that depends on ``seed`` and ``epoch`` alone, int64."""
    if type(count) is not int or count < 0:
        raise ArgumentError(
            "count is how many examples there are", got=count, allowed="an integer from 0"
        )
    return shuffled(count, stream="order", seed=seed, epoch=epoch)


def shuffled(count: int, *, stream: str, seed: int = 0, epoch: int = 0) -> Tensor:
    """The indices sorted by their hashes, of which no two are equal."""
    return bits(torch.arange(count), stream=stream, seed=seed, epoch=epoch)[0].argsort()
