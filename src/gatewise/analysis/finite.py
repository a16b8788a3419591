"""Which of some named tensors holds NaN or infinity."""

from collections.abc import Iterable

from torch import Tensor


def first_not_finite(tensors: Iterable[tuple[str, object]]) -> tuple[str, str] | None:
    """The name of the first that does, and how much of it.

    ``("0.weight", "0.weight: 1 of 432 numbers")``.
    """
    for name, value in tensors:
        if (
            isinstance(value, Tensor)
            and value.is_floating_point()
            and not bool(value.isfinite().all())
        ):
            wrong = int((~value.isfinite()).sum())
            return name, f"{name}: {wrong:,} of {value.numel():,} numbers"
    return None
