"""ReLU6: a rectifier with an upper bound of 6."""

from torch import Tensor
from torch.nn import functional

from gatewise.units.contract import (
    EXACT,
    Limits,
    UnitModule,
    check_input,
    unit,
)


def relu6(x: Tensor) -> Tensor:
    r"""Return ``x`` clipped to the interval from 0 to 6.

    .. math:: \mathrm{ReLU6}(x) = \min(\max(x, 0), 6)

    The derivative at 0 and at 6 is 0.

    Args:
        x: the input, a real floating point tensor.

    Shape: ``(*) -> (*)``.

    Krizhevsky, 2010, "Convolutional Deep Belief Networks on CIFAR-10".
    """
    return functional.relu6(check_input("relu6", x))


@unit(
    name="relu6",
    title="Rectified linear unit with bound 6",
    family="piecewise",
    on="x > 0",
    function=relu6,
    formula=r"\min(\max(x, 0), 6)",
    paper="Krizhevsky, 2010 (technical report)",
    reference=lambda x: x.clamp(0, 6),
    limits=Limits(minus=(0.0,), plus=(6.0,)),
    kinks={0.0: 0.0, 6.0: 0.0},
    error=EXACT,
)
class ReLU6(UnitModule):
    """Module form of :func:`relu6`."""

    expression = staticmethod(functional.relu6)
    fusable = False
