"""Distances between floating-point numbers, and the inputs that cover them all."""

import torch
from torch import Tensor

_INTEGERS = {torch.float16: torch.int16, torch.bfloat16: torch.int16, torch.float32: torch.int32}


def every_16_bit_value(dtype: torch.dtype) -> Tensor:
    """All 65,536 values of float16 or bfloat16, NaNs and infinities included."""
    return torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(dtype)


def float32_values(count: int, seed: int = 0) -> Tensor:
    """About ``count`` float32 values.

    Every exponent and sign equally often, random digits, and the special values.
    """
    generator = torch.Generator().manual_seed(seed)
    each = max(1, count // 512)
    digits = torch.randint(0, 1 << 23, (512, each), generator=generator, dtype=torch.int64)
    patterns = (torch.arange(512, dtype=torch.int64)[:, None] << 23) + digits
    special = (
        torch.tensor([0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan")])
        .view(torch.int32)
        .to(torch.int64)
    )
    patterns = torch.cat((special, patterns.flatten()))
    return (
        torch.where(patterns >= 1 << 31, patterns - (1 << 32), patterns)
        .to(torch.int32)
        .view(torch.float32)
    )


def inputs_of(dtype: torch.dtype, count: int) -> Tensor:
    """Every value of a 16-bit type, or about ``count`` of float32."""
    return float32_values(count) if dtype == torch.float32 else every_16_bit_value(dtype)


def ulps_apart(a: Tensor, b: Tensor) -> Tensor:
    """How many steps from one representable value to the next lie between ``a`` and ``b``.

    Both zeros are one value.
    """
    integers = _INTEGERS[a.dtype]
    places = [t.contiguous().view(integers).to(torch.int64) for t in (a, b)]
    least = -(1 << (torch.iinfo(integers).bits - 1))
    first, second = (torch.where(p < 0, least - p, p) for p in places)
    return (first - second).abs()
