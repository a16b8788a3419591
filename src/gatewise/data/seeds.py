"""Random numbers as a function of what they are for.

Note [No position to restore]

Every draw has a name: the order of one epoch, the initial weights of one module, the crop of one
image in one epoch. Its numbers come from a torch generator that is seeded by the sha256 of the
run's seed and that name. So a resumed run needs no state of a generator, two units are compared on
the same batches and from the same weights, and no draw changes another.

Numbers of examples are drawn in blocks of ``BLOCK`` places, one generator for each block. So an
example has the same numbers in any batch, in any place, in this process or another.
"""

from functools import lru_cache
from hashlib import sha256

import torch
from torch import Tensor

from gatewise.errors import ArgumentError

Name = str | int
LARGEST = 2**63 - 1
BLOCK = 4096
BLOCKS_KEPT = 512  # as many as an epoch of two million examples has


def stream_seed(seed: int, *names: Name) -> int:
    """Return a 64-bit seed for the stream of these names.

    ``("order", 1)`` and ``("order", "1")`` are different streams.
    """
    return int.from_bytes(sha256(repr((int(seed), *names)).encode()).digest()[:8], "little")


def generator(seed: int, *names: Name) -> torch.Generator:
    """Return a generator at the beginning of the stream of these names."""
    return torch.Generator().manual_seed(stream_seed(seed, *names))


def shuffled(count: int, seed: int, *names: Name) -> Tensor:
    """Return the numbers ``0 .. count - 1`` in the random order of that stream, ``(count,)``."""
    return torch.randperm(count, generator=generator(seed, *names))


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
    return shuffled(count, check_key("seed", seed), "order", check_key("epoch", epoch))


def draws(index: Tensor, count: int, seed: int, *names: Name) -> Tensor:
    """Return random numbers of [0, 1) for every index, float64, ``(count, n)``.

    The numbers of an index depend on ``seed``, ``names`` and that index alone.

    Args:
        index: (n) the places of examples, from 0.
        count: numbers for each index.
        seed: of the run.
        *names: of the stream.
    """
    if not len(index):
        return torch.zeros(count, 0, dtype=torch.float64)
    blocks, block_of = torch.unique(index // BLOCK, return_inverse=True)
    tables = torch.stack([_block(count, seed, names, block) for block in blocks.tolist()])
    return tables[block_of, index % BLOCK].t().double()


def below(random: Tensor, count: int | Tensor) -> Tensor:
    """Return integers from 0 to ``count - 1`` for numbers of [0, 1) in float64."""
    return (random * count).long()


def check_key(name: str, value: object) -> int:
    """Return ``value``; raise an error unless it is an integer that can name random numbers."""
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise ArgumentError(
            f"{name} names the random numbers of a run",
            got=value,
            allowed="0 .. 2^63 - 1",
        )
    return value


@lru_cache(maxsize=BLOCKS_KEPT)
def _block(count: int, seed: int, names: tuple[Name, ...], block: int) -> Tensor:
    """Return the numbers of one block of indices, float32, ``(BLOCK, count)``."""
    return torch.rand(BLOCK, count, generator=generator(seed, *names, block))
