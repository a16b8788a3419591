"""What reference forms share. It uses none of the arithmetic that the references check."""

from collections.abc import Callable

from torch import Tensor


def by_channel(formula: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a reference form for a formula whose arguments broadcast along the last dimension."""

    def reference(x: Tensor, *, dim: int = 1, **arguments: Tensor | float) -> Tensor:
        if x.dim() == 0:
            return formula(x, **arguments)
        return formula(x.movedim(dim, -1), **arguments).movedim(-1, dim)

    return reference
