"""The difference between the results of two models."""

from collections.abc import Iterable
from math import inf, isfinite, sqrt

from torch import Tensor


def difference(one: Iterable[Tensor], other: Iterable[Tensor], *, floor: float = 0.0) -> float:
    """Return the largest difference, relative to the largest absolute value of each tensor.

    The result is infinite if numbers of tensors or shapes differ, or if values are finite in one
    result only.

    Args:
        one: The tensors that the differences are relative to.
        other: The tensors to compare with them.
        floor: Differences are relative to at least this share of the largest value of all tensors.
            A gradient that is zero except for rounding has no meaningful relative error.
    """
    firsts = list(one)
    seconds = list(other)
    if len(firsts) != len(seconds):
        return float("inf")
    pairs = list(zip(firsts, seconds, strict=True))
    sizes = [_largest_finite(a) for a, _ in pairs]
    least = max(1e-30, floor * max(sizes, default=0.0))
    largest = 0.0
    for (a, b), size in zip(pairs, sizes, strict=True):
        largest = max(largest, _apart(a, b) / max(size, least))
    return largest


def movement(before: Iterable[Tensor], after: Iterable[Tensor]) -> float | None:
    """Return the root mean square of the change of all values, relative to that of the values.

    The result is ``None`` if shapes differ, or if no finite number tells.
    """
    changed = size = 0.0
    for one, other in zip(before, after, strict=False):
        if one.shape != other.shape:
            return None
        changed += float((other - one).double().square().sum())
        size += float(one.double().square().sum())
    moved = sqrt(changed / size) if size else inf
    return moved if isfinite(moved) else None


def _largest_finite(value: Tensor) -> float:
    """Return the largest absolute value that is finite."""
    if not value.numel():
        return 0.0
    largest = _largest(value)
    return largest if isfinite(largest) else float(value.nan_to_num(0, 0, 0).abs().max())


def _largest(value: Tensor) -> float:
    """Return the largest absolute value, infinite if a value is NaN."""
    low, high = map(float, value.aminmax())
    return max(0.0, -low, high) if low == low else float("inf")


def _apart(a: Tensor, b: Tensor) -> float:
    """Return the largest absolute difference of two tensors."""
    if a.shape != b.shape:
        return float("inf")
    if not a.numel():
        return 0.0
    apart = _largest(a - b)
    if isfinite(apart):
        return apart
    # Equal infinities and NaN in both results are no difference.
    same = (a == b) | (a.isnan() & b.isnan())
    return _largest((a - b).masked_fill(same, 0)) if bool(same.any()) else float("inf")
