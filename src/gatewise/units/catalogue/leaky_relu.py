"""Leaky ReLU: the negative phase is kept, at a small fixed slope."""

from torch import Tensor
from torch.nn import functional

from gatewise.checks import check_number
from gatewise.units.contract import Bound, Promise, UnitModule, check_input, leaky_limits, unit


def leaky_relu(x: Tensor, slope: float = 0.01) -> Tensor:
    r"""Return ``x`` where it is positive, ``slope * x`` elsewhere.

    .. math:: \mathrm{LeakyReLU}(x) = \max(x, 0) + a \min(x, 0)

    where :math:`a` is ``slope``. The derivative at 0 is ``slope``. With ``slope=0`` the limit at
    minus infinity is 0, not NaN.

    Args:
        x: the input, a real floating point tensor.
        slope: the slope for negative inputs.

    Shape: ``(*) -> (*)``.

    Maas, Hannun and Ng, 2013, "Rectifier Nonlinearities Improve Neural Network Acoustic Models".
    """
    check_input("leaky_relu", x)
    return functional.leaky_relu(x, check_number("leaky_relu", "slope", slope))


@unit(
    name="leaky_relu",
    title="Leaky rectified linear unit",
    family="max-affine",
    on="x > 0",
    function=leaky_relu,
    formula=r"\max(x, 0) + a\,\min(x, 0)",
    paper="Maas, Hannun and Ng, 2013 (ICML workshop)",
    studied_in=("psc", "maso", "iieu"),
    reference=lambda x, slope=0.01: (
        x.clamp(min=0) + slope * x.clamp(max=0) if slope else x.clamp(min=0)
    ),
    limits=lambda slope=0.01: leaky_limits(slope),
    kinks=lambda slope=0.01: {0.0: slope},
    pieces=lambda slope=0.01: ((slope, 1.0), (0.0, 0.0)),
    spans=lambda slope=0.01: {
        0.0: {"relu": (1.0,)},
        1.0: {"identity": (1.0,)},
        -1.0: {"abs": (1.0,)},
    }.get(slope, {}),
    # One rounding of the slope to float32 and one of the product; 0 ulp where the slope is a power
    # of two.
    error={
        "float16": Promise(Bound(1), Bound(1)),
        "bfloat16": Promise(Bound(1), Bound(1)),
        "float32": Promise(Bound(1), Bound(1)),
    },
    samples=({}, {"slope": 0.25}, {"slope": 0.0}),
)
class LeakyReLU(UnitModule):
    """Module form of :func:`leaky_relu`.

    Args:
        slope: the slope for negative inputs.
    """

    expression = staticmethod(functional.leaky_relu)
    fusable = False

    slope: float
