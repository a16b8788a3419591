"""Hardsigmoid: a clipped line from 0 to 1."""

from torch import Tensor
from torch.nn import functional

from gatewise.units.contract import (
    Limits,
    UnitModule,
    check_input,
    error_bounds,
    in_compute_dtype,
    promise,
    unit,
)


def hardsigmoid(x: Tensor) -> Tensor:
    r"""Return ``x / 6 + 1/2`` clipped to the interval from 0 to 1.

    .. math:: \mathrm{hardsigmoid}(x) = \min(\max(x / 6 + 1/2, 0), 1)

    The derivative at -3 and 3 is 0. This is a gate, not a gate times a response.

    Args:
        x: the input, a real floating point tensor.

    Shape: ``(*) -> (*)``.

    Courbariaux, Bengio and David, 2015, "BinaryConnect", arXiv:1511.00363, with slope 1/2; Howard
    et al., 2019, arXiv:1905.02244, with slope 1/6 as here.
    """
    return in_compute_dtype(_hardsigmoid, check_input("hardsigmoid", x))


def _hardsigmoid(x: Tensor) -> Tensor:
    # Torch's own has no second derivative.
    return functional.relu6(x + 3) / 6


@unit(
    name="hardsigmoid",
    title="Hard sigmoid",
    family="piecewise",
    on="gate > 1/2",
    function=hardsigmoid,
    formula=r"\min(\max(x / 6 + 1/2, 0), 1)",
    paper="Courbariaux, Bengio and David, 2015 (arXiv:1511.00363)",
    reference=lambda x: (x / 6 + 0.5).clamp(0, 1),
    limits=Limits(minus=(0.0,), plus=(1.0,)),
    kinks={-3.0: 0.0, 3.0: 0.0},
    error=error_bounds(float32=promise(1, 2**-24)),
    note="A gate itself: the value at 0 is 1/2.",
)
class Hardsigmoid(UnitModule):
    """Module form of :func:`hardsigmoid`."""

    expression = staticmethod(_hardsigmoid)
