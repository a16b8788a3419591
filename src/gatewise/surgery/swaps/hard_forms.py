r"""How far beta forms are from the maximum they stand for, and the hard units they become.

Note [Distance]. With gates :math:`T = \mathrm{softmax}(\eta u)` of :math:`R` pieces the soft output
lies below the maximum by :math:`\sum_r T_r (\max u - u_r)`. That is largest when all pieces but one
are equally far behind, by :math:`t / \eta`: then it is
:math:`(R - 1)\,t\,/\,(\eta\,(e^t + R - 1))`, whose maximum over :math:`t` is
:math:`W((R - 1) / e) / \eta` with Lambert's :math:`W`. For two pieces, whatever their slopes, it is
:math:`0.2785 / \eta`.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.layers import BetaChannelPool, BetaPool1d, BetaPool2d, BetaPoolNd
from gatewise.units import BetaVQ, create_unit, trained_eta

POOLS: dict[type[nn.Module], Any] = {BetaPool1d: nn.MaxPool1d, BetaPool2d: nn.MaxPool2d}
BETA_FORMS = (BetaVQ, BetaPool1d, BetaPool2d, BetaChannelPool)


def lambert(y: float) -> float:
    """The solution ``w`` of ``w exp(w) = y`` for ``y >= 0``, by Newton's method."""
    w = math.log1p(y)
    for _ in range(50):
        w -= (w - y * math.exp(-w)) / (1 + w)
    return w


def distance_to_maximum(pieces: int, eta: float) -> float:
    """The largest distance of a beta form of ``pieces`` pieces from their maximum.

    See Note [Distance]. ``eta`` is the steepness of the gates.
    """
    return 0.0 if eta == math.inf or pieces < 2 else lambert((pieces - 1) / math.e) / eta


def beta_within(pieces: int, distance: float) -> float:
    """The beta at which a form of ``pieces`` pieces is at most ``distance`` from the maximum."""
    eta = lambert((pieces - 1) / math.e) / distance
    return eta / (1 + eta)


def least_eta(module: nn.Module) -> float:
    """The smallest steepness of a beta form; infinite if it is the maximum itself."""
    logit = module.beta_logit
    if isinstance(logit, Tensor):
        return float(trained_eta(logit.detach().double()).min())
    start = float(module.start)  # type: ignore[arg-type]  it is a number
    return math.inf if start == 1 else start / (1 - start)


def has_reached(module: nn.Module, least: float) -> bool:
    """Whether every beta of the form is at least ``least``, in the precision of its parameter."""
    logit = module.beta_logit
    if isinstance(logit, Tensor):
        return float(torch.sigmoid(logit.detach()).min()) >= least
    return float(module.start) >= least  # type: ignore[arg-type]  it is a number


def count_pieces(module: nn.Module) -> int:
    """How many pieces the form chooses among."""
    if isinstance(module, BetaPoolNd):
        return math.prod(module.windows.kernel)
    return module.pieces if isinstance(module, BetaChannelPool) else len(module.pieces[0])  # type: ignore[index, arg-type, return-value]


def hard_unit(module: nn.Module) -> nn.Module:
    """The maximum that the beta form ``module`` stands for."""
    if isinstance(module, BetaPoolNd):
        windows = module.windows
        unit: nn.Module = POOLS[type(module)](
            windows.kernel,
            windows.stride,
            windows.padding,
            dilation=windows.dilation,
            ceil_mode=windows.ceil_mode,
        )
    elif isinstance(module, BetaChannelPool):
        unit = create_unit("maxout", pieces=module.pieces, dim=module.dim)
    else:
        assert isinstance(module, BetaVQ)  # noqa: S101  BETA_FORMS has no others
        unit = _hard_pieces(module)
    return unit.train(module.training)


def _hard_pieces(module: BetaVQ) -> nn.Module:
    slopes, offsets = module.pieces
    low = min(slopes)
    if len(slopes) == 2 and not any(offsets) and max(slopes) == 1:
        if low == 0:
            return create_unit("relu")
        if low == -1:
            return create_unit("abs")
        return create_unit("leaky_relu", slope=low)
    return BetaVQ(module.pieces, beta=1.0, dim=module.dim)
