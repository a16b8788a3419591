"""Beta pooling over channels.

One layer from the mean over the softmax-weighted sum to the maximum of groups.
"""

import math

from torch import Tensor

from gatewise.errors import ArgumentError
from gatewise.layers.beta import BetaLayer, soft_maximum
from gatewise.units import (
    Device,
    DType,
    check_channels,
    check_count,
    check_dim_option,
    check_input,
    per_channel,
    region_gates,
    replace_infinities,
    resolve_dim,
    to_compute_dtype,
)


class BetaChannelPool(BetaLayer):
    r"""Pool each ``pieces`` neighbouring channels by the beta-VQ selection among them.

    .. math:: y_c = \sum_{r < k} T_{cr}\, x_{ck + r}, \qquad T_c = \mathrm{softmax}_r(\eta\, x_{ck + r}), \quad
        \eta = \frac{\beta}{1 - \beta}

    where :math:`k` is ``pieces``. Shape: ``(*, kC, *) -> (*, C, *)`` with the channels at ``dim``.
    ``beta = 1`` is the maximum, as :class:`gatewise.nn.Maxout`, ``beta = 0`` the mean. Equal
    channels share the gradient equally. After a linear or convolution layer it is a soft maxout.

    Args: pieces: how many channels are pooled into one. beta: from 0 to 1; the start value if it is
        trained, and then strictly between. learn_beta: train it, through its logit (parameter
        ``beta_logit``). channels: with ``learn_beta``, one beta per output channel instead of one;
        inputs must then have ``pieces``
            times as many.
        dim: the channel dimension.

    Balestriero and Baraniuk, 2019, "From Hard to Soft: Understanding Deep Network Nonlinearities
    via Vector Quantization and Statistical Inference", arXiv:1810.09274, Theorems 1 and 3.
    """

    def __init__(
        self,
        pieces: int,
        *,
        beta: float = 0.5,
        learn_beta: bool = False,
        channels: int | None = None,
        dim: int = 1,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        count = check_channels("BetaChannelPool", channels) or 1
        super().__init__(
            "BetaChannelPool", beta, learn_beta=learn_beta, count=count, device=device, dtype=dtype
        )
        self.channels = channels
        self.pieces = check_count("BetaChannelPool", "pieces", pieces, least=1)
        self.dim = check_dim_option("BetaChannelPool", dim)
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        scores = self._pieces_of(check_input("BetaChannelPool", x))
        eta = per_channel("BetaChannelPool", "beta", self.steepness(), scores[0], self.dim)
        if isinstance(eta, float) and eta == math.inf:
            return region_gates.max_score(scores)
        wide = [to_compute_dtype(u) for u in scores]
        if isinstance(eta, float) and eta == 0:
            return (sum(wide[1:], wide[0]) / self.pieces).to(x.dtype)
        return soft_maximum(
            [replace_infinities(u) for u in wide], region_gates.max_score(wide), eta
        ).to(x.dtype)

    def _pieces_of(self, x: Tensor) -> list[Tensor]:
        axis = resolve_dim("BetaChannelPool", x, self.dim)
        found = x.shape[axis]
        if found % self.pieces or (
            self.channels is not None and self.channels != found // self.pieces
        ):
            allowed = (
                f"a multiple of {self.pieces}"
                if self.channels is None
                else self.channels * self.pieces
            )
            raise ArgumentError(
                f"BetaChannelPool: the channels of dimension {self.dim} cannot be pooled",
                got=f"{found} in shape {tuple(x.shape)}",
                allowed=allowed,
            )
        return [
            x[(slice(None),) * axis + (slice(r, None, self.pieces),)] for r in range(self.pieces)
        ]

    def extra_repr(self) -> str:
        shown = f"pieces={self.pieces}, beta={self.start}"
        if self.learn_beta:
            shown += f", learn_beta=True, channels={self.channels}"
        return shown if self.dim == 1 else f"{shown}, dim={self.dim}"
