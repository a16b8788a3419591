"""Random numbers as a function of what they are for.

Note [No stream position]. A number is a hash of (seed, stream, epoch, index, draw). So there is no
generator whose state would have to be saved, and an example gets the same numbers in a batch of 1
and in a batch of 128, in the first place or the last, in this process or another. The hash is the
finaliser of splitmix64, a bijection of 64 bits, applied once for each part of the key: with all
other parts equal, two indices never get the same bits. Arithmetic on int64 wraps as on unsigned
numbers. Shifts to the right are masked, because torch copies the sign.
"""

import torch
from torch import Tensor

from gatewise.errors import ArgumentError

# Purposes of random numbers. A number keeps its purpose for ever: results depend on it.
STREAMS = {"augment": 1, "order": 2, "split": 3, "synthetic": 4, "test shift": 5}
# Shifts and factors of splitmix64.
ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
STEP = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio
LAST_SHIFT = 31
LARGEST = 2**63 - 1


def signed(value: int) -> int:
    """Return the int64 that has the same 64 bits as ``value``."""
    value &= 2**64 - 1
    return value - 2**64 if value >> 63 else value


def mix(x: Tensor) -> Tensor:
    """Return a bijection of 64 bits in which each bit depends on all others, int64."""
    x = x + signed(STEP)
    for shift, factor in ROUNDS:
        x = (x ^ _shifted(x, shift)) * signed(factor)
    return x ^ _shifted(x, LAST_SHIFT)


def bits(index: Tensor, *, seed: int, stream: str, epoch: int = 0, draws: int = 1) -> Tensor:
    """Return 64 random bits for each draw of each index.

    Args:
        index: (n) of the examples.
        seed: part of the key.
        stream: one of ``STREAMS``: the purpose of the numbers.
        epoch: part of the key.
        draws: the number of draws.

    Returns:
        (draws, n), int64.
    """
    key = torch.tensor(check_key("seed", seed), dtype=torch.int64)
    for part in (STREAMS[stream], check_key("epoch", epoch)):
        key = mix(key) + part
    return mix(mix(mix(key) + index) + torch.arange(draws).unsqueeze(1))


def uniform(random: Tensor) -> Tensor:
    """Return the bits as float32 in [0, 1), each one of 2^24 equally spaced numbers, exact."""
    return _shifted(random, 40).float() / 2**24


def below(random: Tensor, count: int) -> Tensor:
    """Return the bits as an integer from 0 to ``count - 1``.

    The distribution is uniform up to ``count / 2^31``.
    """
    return (_shifted(random, 33) * count) >> 31


def check_key(name: str, value: object) -> int:
    """Return ``value``; raise an error unless it is an integer that can be part of a key."""
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise ArgumentError(
            f"{name} is part of the key of every random number",
            got=value,
            allowed="0 .. 2^63 - 1",
        )
    return value


def _shifted(x: Tensor, by: int) -> Tensor:
    return (x >> by) & (2 ** (64 - by) - 1)
