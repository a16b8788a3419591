"""ReLU: the response where it is positive."""

import torch
from torch import Tensor

from gatewise.units.contract import (
    EXACT,
    RECTIFIED,
    UnitModule,
    check_input,
    unit,
)


def relu(x: Tensor) -> Tensor:
    r"""Return ``x`` where it is positive, 0 elsewhere.

    .. math:: \mathrm{ReLU}(x) = \max(x, 0)

    The derivative at 0 is 0.

    Args:
        x: the input, a real floating point tensor.

    Shape: ``(*) -> (*)``.

    Nair and Hinton, 2010, "Rectified Linear Units Improve Restricted Boltzmann Machines".

    >>> relu(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return torch.relu(check_input("relu", x))


@unit(
    name="relu",
    title="Rectified linear unit",
    family="max-affine",
    on="x > 0",
    function=relu,
    formula=r"\max(x, 0)",
    paper="Nair and Hinton, 2010 (ICML)",
    studied_in=("psc", "maso", "crelu", "iieu", "dgn"),
    reference=lambda x: torch.where(x > 0, x, 0 * torch.where(x.isinf(), 0, x)),
    limits=RECTIFIED,
    kinks={0.0: 0.0},
    pieces=((0.0, 1.0), (0.0, 0.0)),
    spans={"relu": (1.0,)},
    error=EXACT,
)
class ReLU(UnitModule):
    """Module form of :func:`relu`."""

    expression = staticmethod(torch.relu)
    fusable = False
