"""ACON-C: a smooth maximum of two lines through the origin, with both slopes and the switch trainable."""

import math

import numpy
import torch
from torch import Tensor, nn

from gatewise.units.contract import (
    Device,
    DType,
    Limits,
    UnitModule,
    allocating,
    by_channel,
    check_channels,
    check_input,
    check_number,
    per_channel,
    promise,
    self_gated,
    sigmoid,
    to_compute_dtype,
    unit,
)


def acon_c(
    x: Tensor,
    p1: float | Tensor = 1.0,
    p2: float | Tensor = 0.0,
    beta: float | Tensor = 1.0,
    dim: int = 1,
) -> Tensor:
    r"""The smooth maximum of ``p1 * x`` and ``p2 * x``.

    .. math:: \mathrm{ACON}(x) = (p_1 - p_2) x\,\sigma(\beta (p_1 - p_2) x) + p_2 x

    Each argument is one number or one per channel of ``dim``. Shape: ``(*) -> (*)``. ``beta = 0``
    is the mean of the two lines, a large ``beta`` their maximum; ``p1 = 1, p2 = 0`` is Swish.

    Ma et al., 2021, "Activate or Not: Learning Customized Activation", arXiv:2009.04759.
    """
    w = to_compute_dtype(check_input("acon_c", x))
    first = per_channel("acon_c", "p1", p1, x, dim)
    second = per_channel("acon_c", "p2", p2, x, dim)
    switch = per_channel("acon_c", "beta", beta, x, dim)
    return smooth_maximum(w, first, second, switch).to(x.dtype)


def smooth_maximum(
    w: Tensor, p1: float | Tensor, p2: float | Tensor, beta: float | Tensor
) -> Tensor:
    """ACON on arguments that broadcast.

    A gate between two slopes, both with positive weights, so no tail cancels.
    """
    gap = p1 - p2

    def gate(z: Tensor) -> Tensor:
        lean = beta * (gap * z)
        return p1 * sigmoid(lean) + p2 * sigmoid(-lean)

    return self_gated(w, gate)


def slope_limits(p1: float = 1.0, p2: float = 0.0, beta: float = 1.0) -> Limits:
    """Where the two lines lead: the larger value wins at both ends for positive ``beta``."""
    high, low = max(p1, p2), min(p1, p2)

    def end(slope: float, x: float) -> float:
        return math.copysign(math.inf, slope * x) if slope else 0.0

    return Limits(minus=(end(low, -1.0),), plus=(end(high, 1.0),))


def _init_gain(p1: float | None = None, p2: float | None = None, beta: float = 1.0) -> float:
    """Over the input and, where they start random, over the slopes."""
    nodes, weights = (torch.from_numpy(a) for a in numpy.polynomial.hermite_e.hermegauss(31))
    weights = weights / weights.sum()
    a, wa = (
        (nodes, weights) if p1 is None else (torch.full((1,), p1).double(), torch.ones(1).double())
    )
    b, wb = (
        (nodes, weights) if p2 is None else (torch.full((1,), p2).double(), torch.ones(1).double())
    )
    z = torch.linspace(-12.0, 12.0, 2401, dtype=torch.float64)
    density = torch.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    y = smooth_maximum(z.expand(len(a), len(b), -1), a.view(-1, 1, 1), b.view(1, -1, 1), beta)
    square = torch.trapezoid(y * y * density, z)
    return float((wa.view(-1, 1) * wb * square).sum()) ** -0.5


class AconModule(UnitModule):
    """The two slopes per channel that ACON-C and Meta-ACON share."""

    p1: nn.Parameter
    p2: nn.Parameter

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
        super().__init__(channels=channels, p1=p1, p2=p2, dim=dim, **options)
        self.starts = {
            n: v if v is None else check_number(unit, n, v) for n, v in (("p1", p1), ("p2", p2))
        }
        self.channels = check_channels(unit, channels, required=True) or 1
        self.dim = dim
        with allocating(unit, device, dtype):
            for name in self.starts:
                self.register_parameter(
                    name, nn.Parameter(torch.empty(self.channels, device=device, dtype=dtype))
                )

    def reset_parameters(self) -> None:
        """Draw the slopes from N(0, 1), or set them where the constructor was given a value."""
        for name, value in self.starts.items():
            slope = self.get_parameter(name)
            nn.init.normal_(slope) if value is None else nn.init.constant_(slope, value)


@unit(
    name="acon_c",
    title="ACON-C",
    family="adaptive",
    function=acon_c,
    formula=r"(p_1 - p_2)\,x\,\sigma(\beta(p_1 - p_2)x) + p_2\,x",
    paper="Ma et al., 2021 (arXiv:2009.04759)",
    studied_in=("iieu",),
    reference=by_channel(
        lambda x, p1, p2, beta: (p1 - p2) * x * torch.special.expit(beta * (p1 - p2) * x) + p2 * x
    ),
    limits=slope_limits,
    parameters={"p1": "N(0, 1)", "p2": "N(0, 1)", "beta": "1.0"},
    init_gain=_init_gain,
    needs=("channels",),
    error={
        "float16": promise(1, 2**-24),
        "bfloat16": promise(1, 2**-24),
        "float32": promise(4, 2**-22),
    },
    samples=(
        {"channels": 6, "p1": 1.0, "p2": 0.0},
        {"channels": 6, "p1": 1.2, "p2": -0.3, "beta": 2.0},
    ),
)
class ACONC(AconModule):
    """Module form of :func:`acon_c`.

    ``p1`` and ``p2`` start as N(0, 1) per channel unless given.
    """

    beta: nn.Parameter

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

    def arguments(self, x: Tensor) -> dict:
        return {"p1": self.p1, "p2": self.p2, "beta": self.beta, "dim": self.dim}

    def forward(self, x: Tensor) -> Tensor:
        return acon_c(x, **self.arguments(x))
