"""Random numbers as a function of seed and purpose, so that what one part draws never moves another."""

from hashlib import sha256

import torch
from torch import Tensor


def generator(seed: int, *purpose: object) -> torch.Generator:
    """A generator of its own for each seed and purpose (``"weights"``, ``"order"``, epoch, ...)."""
    text = "/".join(map(str, (seed, *purpose)))
    return torch.Generator().manual_seed(
        int.from_bytes(sha256(text.encode()).digest()[:8], "big", signed=True)
    )


def uniform(shape: tuple[int, ...], seed: int, *purpose: object) -> Tensor:
    """Uniform numbers in [-1, 1), float64."""
    return 2 * torch.rand(shape, generator=generator(seed, *purpose), dtype=torch.float64) - 1


def orders(count: int, seeds: tuple[int, ...], epoch: int) -> Tensor:
    """Each seed's own order of the examples in one epoch: (seeds, count)."""
    return torch.stack(
        [torch.randperm(count, generator=generator(seed, "order", epoch)) for seed in seeds]
    )
