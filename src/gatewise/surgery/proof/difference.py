"""How far apart two results are."""

from collections.abc import Iterable
from math import isfinite

from torch import Tensor

BLOCK = 1 << 16  # entries whose differences stay in the processor's own memory


def difference(one: Iterable[Tensor], other: Iterable[Tensor], *, floor: float = 0.0) -> float:
    """Largest difference, relative to the largest number of each tensor.

    Infinite where shapes or finiteness differ.

    With ``floor``, relative to no less than that part of the largest number of all: a gradient that
    is zero but for rounding has no relative error.
    """
    pairs = list(zip(one, other, strict=True))
    sizes = [_largest(a) for a, _ in pairs]
    least = max([1e-30, floor * max(sizes, default=0.0)])
    return max(
        (_apart(a, b) / max(size, least) for (a, b), size in zip(pairs, sizes, strict=True)),
        default=0.0,
    )


def _largest(value: Tensor) -> float:
    if not value.numel():
        return 0.0
    low, high = (float(each) for each in value.aminmax())
    largest = max(0.0, -low, high)
    return largest if isfinite(largest) else float(value.nan_to_num(0, 0, 0).abs().max())


def _apart(a: Tensor, b: Tensor) -> float:
    if a.shape != b.shape:
        return float("inf")
    if not a.numel():
        return 0.0
    rows = max(1, len(a) * BLOCK // a.numel()) if a.dim() else 1
    blocks = zip(a.split(rows), b.split(rows), strict=True) if a.dim() else [(a, b)]
    apart = max(_largest_plain(x - y) for x, y in blocks)
    if isfinite(apart):
        return apart
    same = (a == b) | (a.isnan() & b.isnan())
    return _largest_plain((a - b).masked_fill(same, 0)) if bool(same.any()) else float("inf")


def _largest_plain(value: Tensor) -> float:
    low, high = (float(each) for each in value.aminmax())
    return max(0.0, -low, high) if low == low else float("inf")
