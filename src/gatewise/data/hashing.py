"""Random numbers as a function of what they are for.

Note [No stream position]

A number is a hash of (seed, stream, epoch, index, draw), so there is no generator whose state would
have to be saved, and an example gets the same numbers in a batch of 1 as in a batch of 128, first
or last, in this process or another. The hash is splitmix64's finaliser, a bijection of 64 bits,
applied once for each part of the key: with all other parts equal, two indices never get the same
bits. Arithmetic on int64 wraps, as it does for unsigned numbers; shifts to the right are masked,
because torch copies the sign.
"""

import torch
from torch import Tensor

from gatewise.errors import ArgumentError

STREAMS = {"augment": 1, "order": 2, "split": 3, "synthetic": 4, "test shift": 5}
ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
STEP = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio
LAST_SHIFT = 31
LARGEST = 2**63 - 1


def signed(value: int) -> int:
    """The integer of 64 bits with the same bits as ``value``, as int64 has it."""
    value &= 2**64 - 1
    return value - 2**64 if value >> 63 else value


def mix(x: Tensor) -> Tensor:
    """A bijection of 64 bits after which no bit looks like another; int64 in and out."""
    x = x + signed(STEP)
    for shift, factor in ROUNDS:
        x = (x ^ _shifted(x, shift)) * signed(factor)
    return x ^ _shifted(x, LAST_SHIFT)


def bits(index: Tensor, *, seed: int, stream: str, epoch: int = 0, draws: int = 1) -> Tensor:
    """64 random bits for each draw of each index. Shape: ``(n) -> (draws, n)``, int64."""
    key = torch.tensor(check_key("seed", seed), dtype=torch.int64)
    for part in (STREAMS[stream], check_key("epoch", epoch)):
        key = mix(key) + part
    return mix(mix(mix(key) + index) + torch.arange(draws).unsqueeze(1))


def uniform(random: Tensor) -> Tensor:
    """The bits as float32 in [0, 1).

    One of 2^24 equally distant numbers, every one of them exact.
    """
    return _shifted(random, 40).float() / 2**24


def below(random: Tensor, count: int) -> Tensor:
    """The bits as an integer in ``0 .. count - 1``.

    For ``count`` far below 2^31, as near to uniform as one can see.
    """
    return (_shifted(random, 33) * count) >> 31


def check_key(name: str, value: object) -> int:
    """``value`` if it can be part of a key."""
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise ArgumentError(
            f"{name} is part of the key of every random number", got=value, allowed="0 .. 2^63 - 1"
        )
    return value


def _shifted(x: Tensor, by: int) -> Tensor:
    return (x >> by) & (2 ** (64 - by) - 1)
