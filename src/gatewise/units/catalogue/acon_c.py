"""ACON-C: a smooth maximum of two lines through 0, with trainable slopes and a trainable switch."""

import math

import numpy
import torch
from torch import Tensor, nn

from gatewise.checks import check_number
from gatewise.units.contract import (
    Device,
    DType,
    Limits,
    UnitModule,
    aligned,
    allocating,
    by_channel,
    check_channels,
    compute_per_channel,
    error_bounds,
    promise,
    unit,
)


def acon_c(
    x: Tensor,
    p1: float | Tensor = 1.0,
    p2: float | Tensor = 0.0,
    beta: float | Tensor = 1.0,
    dim: int = 1,
) -> Tensor:
    r"""Return the smooth maximum of ``p1 * x`` and ``p2 * x``.

    .. math:: \mathrm{ACON}(x) = (p_1 - p_2) x\,\sigma(\beta (p_1 - p_2) x) + p_2 x

    With ``beta = 0`` this is the mean of the two lines, with a large ``beta`` their maximum. With
    ``p1 = 1`` and ``p2 = 0`` it is Swish.

    Args:
        x: the input, a real floating point tensor.
        p1: the slope of the first line, one number or one per channel.
        p2: the slope of the second line, one number or one per channel.
        beta: the steepness of the switch between the lines, one number or one per channel.
        dim: the channel dimension of the input.

    Shape: ``(*) -> (*)``.

    Ma et al., 2021, "Activate or Not: Learning Customized Activation", arXiv:2009.04759.
    """
    return compute_per_channel("acon_c", smooth_maximum, x, dim, {"p1": p1, "p2": p2, "beta": beta})


def smooth_maximum(
    w: Tensor,
    p1: float | Tensor,
    p2: float | Tensor,
    beta: float | Tensor,
) -> Tensor:
    """Return ACON of arguments that broadcast.

    It is a gate between two slopes.
    """
    gap = (p1 - p2) * w
    return gap * torch.sigmoid(beta * gap) + p2 * w


def slope_limits(p1: float = 1.0, p2: float = 0.0, beta: float = 1.0) -> Limits:
    """Return the limits: for a positive ``beta`` the larger line wins at both ends."""

    def end(slope: float, x: float) -> float:
        if slope:
            return math.copysign(math.inf, slope * x)
        return 0.0

    return Limits(minus=(end(min(p1, p2), -1.0),), plus=(end(max(p1, p2), 1.0),))


def _init_gain(p1: float | None = None, p2: float | None = None, beta: float = 1.0) -> float:
    """Return the gain, averaged over the input and over slopes that start at random."""
    a, weights_a = _slope_nodes(p1)
    b, weights_b = _slope_nodes(p2)
    # The trapezoid rule over the input, for all pairs of slopes at once.
    z = torch.linspace(-12.0, 12.0, 2401, dtype=torch.float64)
    density = torch.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    y = smooth_maximum(z.expand(len(a), len(b), -1), a.view(-1, 1, 1), b.view(1, -1, 1), beta)
    square = torch.trapezoid(y * y * density, z)
    return float((weights_a.view(-1, 1) * weights_b * square).sum()) ** -0.5


def _slope_nodes(slope: float | None) -> tuple[Tensor, Tensor]:
    """Return values and weights of a slope: itself, or a Gauss-Hermite rule for a random one."""
    if slope is not None:
        return torch.full((1,), slope).double(), torch.ones(1).double()
    nodes, weights = map(torch.from_numpy, numpy.polynomial.hermite_e.hermegauss(31))
    return nodes, weights / weights.sum()


class AconModule(UnitModule):
    """The two slopes per channel that ACON-C and Meta-ACON share.

    Args:
        unit: the unit's name in error messages.
        channels: the number of channels.
        p1: the start value of the first slope; ``None`` draws it from N(0, 1).
        p2: the start value of the second slope; ``None`` draws it from N(0, 1).
        dim: the channel dimension of the input.
        device: the device of the parameters.
        dtype: the dtype of the parameters.
        **options: further options of the unit, for its representation.
    """

    p1: nn.Parameter  # (C,)
    p2: nn.Parameter  # (C,)

    def __init__(
        self,
        unit: str,
        channels: int,
        p1: float | None,
        p2: float | None,
        dim: int,
        device: Device,
        dtype: DType,
        **options: object,
    ) -> None:
        super().__init__(
            channels=channels,
            p1=p1,
            p2=p2,
            dim=dim,
            **options,
        )
        self.starts: dict[str, float | None] = {}
        for name, start in (("p1", p1), ("p2", p2)):
            self.starts[name] = None if start is None else check_number(unit, name, start)
        self.channels = check_channels(unit, channels, required=True) or 1
        self.dim = dim
        with allocating(unit, device, dtype):
            for name in self.starts:
                self.register_parameter(
                    name, nn.Parameter(torch.empty(self.channels, device=device, dtype=dtype))
                )

    def reset_parameters(self) -> None:
        """Draw the slopes from N(0, 1), or set them to the values given to the constructor."""
        for name, value in self.starts.items():
            slope = self.get_parameter(name)
            if value is None:
                nn.init.normal_(slope)
            else:
                nn.init.constant_(slope, value)


@unit(
    name="acon_c",
    title="ACON-C",
    family="adaptive",
    on="gate > 1/2",
    function=acon_c,
    formula=r"(p_1 - p_2)\,x\,\sigma(\beta(p_1 - p_2)x) + p_2\,x",
    paper="Ma et al., 2021 (arXiv:2009.04759)",
    studied_in=("iieu",),
    reference=by_channel(
        lambda x, p1, p2, beta: (p1 - p2) * x * torch.special.expit(beta * (p1 - p2) * x) + p2 * x
    ),
    limits=slope_limits,
    parameters={
        "p1": "N(0, 1)",
        "p2": "N(0, 1)",
        "beta": "1.0",
    },
    init_gain=_init_gain,
    needs=("channels",),
    largest=1e38,
    error=error_bounds(
        float32=promise(4, 2**-22, back_absolute=2**-18),
    ),
    samples=(
        {
            "channels": 6,
            "p1": 1.0,
            "p2": 0.0,
        },
        {
            "channels": 6,
            "p1": 1.2,
            "p2": -0.3,
            "beta": 2.0,
        },
    ),
)
class ACONC(AconModule):
    """Module form of :func:`acon_c` with trainable ``p1``, ``p2`` and ``beta`` per channel.

    Args:
        channels: the number of channels.
        p1: the start value of ``p1``; ``None`` draws it from N(0, 1).
        p2: the start value of ``p2``; ``None`` draws it from N(0, 1).
        beta: the start value of ``beta``.
        dim: the channel dimension of the input.
        device: the device of the parameters.
        dtype: the dtype of the parameters.
    """

    beta: nn.Parameter  # (C,)

    def __init__(
        self,
        *,
        channels: int,
        p1: float | None = None,
        p2: float | None = None,
        beta: float = 1.0,
        dim: int = 1,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        super().__init__("acon_c", channels, p1, p2, dim, device, dtype, beta=beta)
        self.starts["beta"] = check_number("acon_c", "beta", beta)
        self.beta = nn.Parameter(torch.empty(self.channels, device=device, dtype=dtype))
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        numbers = aligned(x, self.dim, *map(self._parameters.get, ("p1", "p2", "beta")))
        if numbers is None:
            return acon_c(x, **self.arguments(x))
        return smooth_maximum(x, *numbers)
