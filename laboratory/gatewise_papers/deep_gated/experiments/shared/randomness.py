"""Random numbers as a function of seed and purpose, so that no draw depends on another."""

from hashlib import sha256

import torch
from torch import Tensor


def generator(seed: int, *purpose: object) -> torch.Generator:
    """Return a generator for one seed and purpose (``"weights"``, ``"order"``, epoch, ...)."""
    text = "/".join(map(str, (seed, *purpose)))
    number = int.from_bytes(sha256(text.encode()).digest()[:8], "big", signed=True)
    return torch.Generator().manual_seed(number)


def uniform(shape: tuple[int, ...], seed: int, *purpose: object) -> Tensor:
    """Return uniform numbers in [-1, 1), float64."""
    return 2 * torch.rand(shape, generator=generator(seed, *purpose), dtype=torch.float64) - 1


def orders(count: int, seeds: tuple[int, ...], epoch: int) -> Tensor:
    """Return each seed's own order of the examples in one epoch, (seeds, count)."""
    rows = []
    for seed in seeds:
        rows.append(torch.randperm(count, generator=generator(seed, "order", epoch)))
    return torch.stack(rows)
