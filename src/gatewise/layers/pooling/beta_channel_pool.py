"""Beta pooling over channels: from the mean of a group of channels to its maximum."""

import math

from torch import Tensor

from gatewise.checks import check_count
from gatewise.errors import ArgumentError
from gatewise.layers.beta import BetaLayer, soft_maximum
from gatewise.units import (
    Device,
    DType,
    check_channels,
    check_dim_option,
    check_input,
    per_channel,
    region_gates,
    replace_infinities,
    resolve_dim,
    to_compute_dtype,
)


class BetaChannelPool(BetaLayer):
    r"""Pool every ``pieces`` neighbouring channels by the beta-VQ selection among them.

    .. math:: y_c = \sum_{r < k} T_{cr}\, x_{ck + r}, \qquad
        T_c = \mathrm{softmax}_r(\eta\, x_{ck + r}), \quad \eta = \frac{\beta}{1 - \beta}

    where :math:`k` is ``pieces``. ``beta = 1`` is the maximum, as :class:`gatewise.nn.Maxout`,
    ``beta = 0`` the mean. Equal channels share the gradient equally. After a linear or convolution
    layer it is a soft maxout.

    Args:
        pieces: the number of channels that are pooled into one.
        beta: from 0 to 1. A trainable beta starts here, strictly between 0 and 1.
        learn_beta: whether to train beta, through its logit (parameter ``beta_logit``).
        channels: with ``learn_beta``, the number of output channels for one beta per output
            channel; ``None`` for one beta in all. Inputs must have ``pieces`` times as many
            channels.
        dim: the channel dimension of the input.
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``(*, kC, *) -> (*, C, *)`` with the channels at ``dim``.

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
            "BetaChannelPool",
            beta,
            learn_beta=learn_beta,
            count=count,
            device=device,
            dtype=dtype,
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
        bounded = [replace_infinities(u) for u in wide]
        return soft_maximum(bounded, region_gates.max_score(wide), eta).to(x.dtype)

    def _pieces_of(self, x: Tensor) -> list[Tensor]:
        axis = resolve_dim("BetaChannelPool", x, self.dim)
        count = x.shape[axis]
        if self.channels is None:
            fits = count % self.pieces == 0
            allowed = f"a multiple of {self.pieces}"
        else:
            fits = count == self.channels * self.pieces
            allowed = str(self.channels * self.pieces)
        if not fits:
            raise ArgumentError(
                f"BetaChannelPool: the channels of dimension {self.dim} cannot be pooled",
                got=f"{count} in shape {tuple(x.shape)}",
                allowed=allowed,
            )
        before = (slice(None),) * axis
        return [x[(*before, slice(r, None, self.pieces))] for r in range(self.pieces)]

    def extra_repr(self) -> str:
        shown = f"pieces={self.pieces}, beta={self.start}"
        if self.learn_beta:
            shown += f", learn_beta=True, channels={self.channels}"
        return shown if self.dim == 1 else f"{shown}, dim={self.dim}"
