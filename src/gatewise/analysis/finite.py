"""Find NaN and infinity in named tensors."""

from collections.abc import Iterable

from torch import Tensor


def first_not_finite(tensors: Iterable[tuple[str, object]]) -> tuple[str, str] | None:
    """Return the first tensor that contains NaN or infinity.

    Args:
        tensors: Names and tensors. Values that are not floating-point tensors are skipped.

    Returns:
        The name and a description, e.g. ``("0.weight", "0.weight: 1 of 432 numbers")``, or
        ``None`` if all numbers are finite.
    """
    for name, value in tensors:
        if not isinstance(value, Tensor) or not value.is_floating_point():
            continue
        wrong = int((~value.isfinite()).sum())
        if wrong:
            return name, f"{name}: {wrong:,} of {value.numel():,} numbers"
    return None
