"""ReLU2: the square of a rectified response."""

import torch
from torch import Tensor

from gatewise.units.contract import (
    RECTIFIED,
    UnitModule,
    check_input,
    error_bounds,
    promise,
    unit,
)


def relu2(x: Tensor) -> Tensor:
    r"""Return the square of the positive part of ``x``.

    .. math:: \mathrm{ReLU}^2(x) = \max(x, 0)^2

    The gate is the positive part itself: ``relu(x) * x``. Equal to ``reglu(x, x)``. The derivative
    is continuous. In float16 the result overflows from ``x = 256`` on.

    Args:
        x: the input, a real floating point tensor.

    Shape: ``(*) -> (*)``.

    So et al., 2021, "Primer: Searching for Efficient Transformers", arXiv:2109.08668.
    """
    return _relu2(check_input("relu2", x))


def _relu2(x: Tensor) -> Tensor:
    positive = torch.relu(x)
    return positive * positive


@unit(
    name="relu2",
    title="Squared rectified linear unit",
    family="smooth",
    on="x > 0",
    function=relu2,
    formula=r"\max(x, 0)^2",
    paper="So et al., 2021 (arXiv:2109.08668)",
    reference=lambda x: torch.where(x > 0, x * x, 0 * torch.where(x.isinf(), 0, x)),
    limits=RECTIFIED,
    error=error_bounds(float32=promise(1)),
    note="Gradients grow with the input, and float16 overflows from 256 on.",
)
class ReLU2(UnitModule):
    """Module form of :func:`relu2`."""

    expression = staticmethod(_relu2)
