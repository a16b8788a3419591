"""Hardtanh: the response clipped to an interval."""

from torch import Tensor
from torch.nn import functional

from gatewise.checks import check_number
from gatewise.errors import ArgumentError
from gatewise.units.contract import Limits, UnitModule, check_input, error_bounds, promise, unit


def hardtanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    r"""Return ``x`` clipped to the interval from ``min_val`` to ``max_val``.

    .. math:: \mathrm{hardtanh}(x) = \min(\max(x, a), b)

    where :math:`a` is ``min_val`` and :math:`b` is ``max_val``. The derivative at both ends is 0,
    unlike that of ``torch.clamp``, which is 1.

    Args:
        x: the input, a real floating point tensor.
        min_val: the smallest result.
        max_val: the largest result.

    Shape: ``(*) -> (*)``.

    Collobert, 2004, "Large Scale Machine Learning".
    """
    min_val = check_number("hardtanh", "min_val", min_val)
    max_val = check_number("hardtanh", "max_val", max_val)
    check_input("hardtanh", x)
    if not min_val < max_val:
        raise ArgumentError(
            "hardtanh: min_val must be less than max_val", got=f"{min_val} and {max_val}"
        )
    return functional.hardtanh(x, min_val, max_val)


@unit(
    name="hardtanh",
    title="Hard hyperbolic tangent",
    family="piecewise",
    on="x > 0",
    function=hardtanh,
    formula=r"\min(\max(x, a), b)",
    paper="Collobert, 2004 (thesis, Universite Paris 6)",
    reference=lambda x, min_val=-1.0, max_val=1.0: x.clamp(min_val, max_val),
    limits=lambda min_val=-1.0, max_val=1.0: Limits(minus=(min_val,), plus=(max_val,)),
    kinks=lambda min_val=-1.0, max_val=1.0: {min_val: 0.0, max_val: 0.0},
    error=error_bounds(half=promise(1), float32=promise(1)),
    samples=({}, {"min_val": -0.5, "max_val": 2.0}),
)
class Hardtanh(UnitModule):
    """Module form of :func:`hardtanh`.

    Args:
        min_val: the smallest result.
        max_val: the largest result.
    """

    expression = staticmethod(functional.hardtanh)
    fusable = False
