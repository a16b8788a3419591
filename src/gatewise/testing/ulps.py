"""Distances between floating-point numbers, and the inputs that cover them all."""

import math

import torch
from torch import Tensor

# The integers that hold the bits of each dtype.
_INTEGERS = {
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
    torch.float32: torch.int32,
}


def every_16_bit_value(dtype: torch.dtype) -> Tensor:
    """Return all 65,536 values of float16 or bfloat16, with NaNs and infinities.

    Args:
        dtype: ``torch.float16`` or ``torch.bfloat16``.
    """
    patterns = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32)
    return patterns.to(torch.int16).view(dtype)


def float32_values(count: int, seed: int = 0) -> Tensor:
    """Return about ``count`` float32 values and the special values.

    Every exponent and sign occurs equally often, with random digits.

    Args:
        count: the number of values.
        seed: the seed of the random digits.
    """
    generator = torch.Generator().manual_seed(seed)
    # There are 256 exponents and 2 signs, above 23 bits of digits.
    shape = (512, max(1, count // 512))
    digits = torch.randint(0, 1 << 23, shape, generator=generator, dtype=torch.int64)
    exponents = torch.arange(512, dtype=torch.int64)
    patterns = (exponents[:, None] << 23) + digits
    special = torch.tensor([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan])
    special = special.view(torch.int32).to(torch.int64)
    patterns = torch.cat((special, patterns.flatten()))
    # As 32-bit integers with a sign, whose bits are those of the float.
    signed = torch.where(patterns >= 1 << 31, patterns - (1 << 32), patterns)
    return signed.to(torch.int32).view(torch.float32)


def inputs_of(dtype: torch.dtype, count: int) -> Tensor:
    """Return every value of a 16-bit type, or about ``count`` of float32."""
    if dtype == torch.float32:
        return float32_values(count)
    return every_16_bit_value(dtype)


def ulps_apart(a: Tensor, b: Tensor) -> Tensor:
    """Return the number of steps between representable values from ``a`` to ``b``.

    Both zeros are one value.

    Args:
        a: a tensor of a half type or float32.
        b: a tensor of the same dtype.
    """
    integers = _INTEGERS[a.dtype]
    least = torch.iinfo(integers).min
    places = []
    for values in (a, b):
        # Negative floats are ordered the other way round.
        bits = values.contiguous().view(integers).to(torch.int64)
        places.append(torch.where(bits < 0, least - bits, bits))
    return (places[0] - places[1]).abs()
