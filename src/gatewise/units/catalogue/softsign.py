"""Softsign: a sigmoid curve with slow tails."""

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


def softsign(x: Tensor) -> Tensor:
    r"""Return ``x`` over one plus its magnitude.

    .. math:: \mathrm{softsign}(x) = \frac{x}{1 + |x|}

    The limits are -1 and 1.

    Args:
        x: the input, a real floating point tensor.

    Shape: ``(*) -> (*)``.

    Turian, Bergstra and Bengio, 2009, "Quadratic Features and Deep Architectures for Chunking".
    """
    return in_compute_dtype(functional.softsign, check_input("softsign", x))


@unit(
    name="softsign",
    title="Softsign",
    family="smooth",
    on="x > 0",
    function=softsign,
    formula=r"\frac{x}{1 + |x|}",
    paper="Turian, Bergstra and Bengio, 2009 (NAACL)",
    reference=lambda x: x / (1 + x.abs()),
    limits=Limits(minus=(-1.0,), plus=(1.0,)),
    error=error_bounds(float32=promise(4, 2**-22)),
)
class Softsign(UnitModule):
    """Module form of :func:`softsign`."""

    expression = staticmethod(functional.softsign)
