"""SMU-1: a leaky ReLU smoothed with a square root."""

import math

import torch
from torch import Tensor

from gatewise.units.contract import (
    Device,
    DType,
    Limits,
    TrainableUnit,
    at_most,
    by_channel,
    check_input,
    check_number,
    per_channel,
    promise,
    replace_infinities,
    to_compute_dtype,
    unit,
)

_START = 4.352665993287951e-9
_FAR = (
    2.0**60
    # beyond it the rounding of the corner is below any float's last digit, and its square would
    # overflow
)


def smu1(x: Tensor, mu: float | Tensor = _START, alpha: float = 0.25, dim: int = 1) -> Tensor:
    r"""The smooth maximum of ``x`` and ``alpha * x``, by a hyperbola.

    .. math:: \mathrm{SMU1}(x) = \tfrac{1}{2}\left((1 + \alpha) x + \sqrt{(1 - \alpha)^2 x^2 + \mu^2}\right)

    ``mu`` is one number or one per channel of ``dim``. Shape: ``(*) -> (*)``. Computed as the leaky
    ReLU plus :math:`\mu^2 / (2 (h + |t|))` with :math:`t = (1 - \alpha) x` and :math:`h = \sqrt{t^2
    + \mu^2}`, which neither overflows nor cancels. The published start ``mu = 4.35e-9`` squares to
    0 in float16, where the printed form divides 0 by 0 at ``x = 0``; this one does not.

    Biswas et al., 2022, "Smooth Maximum Unit", arXiv:2111.04682.
    """
    w, alpha = to_compute_dtype(check_input("smu1", x)), check_number("smu1", "alpha", alpha)
    m = torch.as_tensor(per_channel("smu1", "mu", mu, x, dim), dtype=w.dtype, device=w.device)
    t = (1 - alpha) * w
    right = t >= 0
    distance = at_most(torch.where(right, t, -t), _FAR)
    h = torch.sqrt(distance * distance + m * m + torch.finfo(w.dtype).tiny)
    low = replace_infinities(w) if alpha == 0 else w
    return (torch.where(right, w, alpha * low) + 0.5 * (m * (m / (h + distance)))).to(x.dtype)


def _limits(alpha: float = 0.25) -> Limits:
    return Limits(minus=(-math.copysign(math.inf, alpha) if alpha else 0.0,), plus=(math.inf,))


@unit(
    name="smu1",
    title="Smooth maximum unit, square-root form",
    family="adaptive",
    function=smu1,
    formula=r"\frac{1}{2}\,((1 + \alpha)\,x + \sqrt{(1 - \alpha)^2 x^2 + \mu^2})",
    paper="Biswas et al., 2022 (arXiv:2111.04682)",
    studied_in=("iieu",),
    reference=by_channel(
        lambda x, mu, alpha=0.25: ((1 + alpha) * x + torch.hypot((1 - alpha) * x, mu + 0 * x)) / 2
    ),
    limits=_limits,
    kinks=lambda mu=_START, alpha=0.25: {0.0: (1 + alpha) / 2} if mu < 1e-2 else {},
    parameters={"mu": "4.352665993287951e-9"},
    error={
        "float16": promise(1, 2**-24),
        "bfloat16": promise(1, 2**-24),
        "float32": promise(4, 2**-24),
    },
    samples=({}, {"mu": 0.5, "channels": 6}),
    note="mu starts so small that the unit is a leaky ReLU; SMU1(mu=0.5) starts smooth.",
)
class SMU1(TrainableUnit):
    """Module form of :func:`smu1`."""

    def __init__(
        self,
        *,
        mu: float = _START,
        alpha: float = 0.25,
        channels: int | None = None,
        dim: int = 1,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        super().__init__(
            "smu1", {"mu": mu}, alpha=alpha, channels=channels, dim=dim, device=device, dtype=dtype
        )
        self.alpha = check_number("smu1", "alpha", alpha)

    def arguments(self, x: Tensor) -> dict:
        return super().arguments(x) | {"alpha": self.alpha}

    def forward(self, x: Tensor) -> Tensor:
        return smu1(x, **self.arguments(x))
