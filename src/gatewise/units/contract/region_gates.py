"""How a gate is chosen from region scores: hard, entropy-penalised (Shannon), or sparse (Tsallis).

Scores and gates are lists of tensors, one per region, combined element by element: no stacking, any
layout, the same bits everywhere.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gatewise.units.contract.arithmetic import sigmoid

# Newton steps beyond the log(R) that bring it near the solution: each doubles the digits, six would
# do
_SURE = 8


def hard_gates(scores: Sequence[Tensor]) -> list[Tensor]:
    """1 for the first largest score, 0 for the others; all 0 where a score is NaN."""
    top = max_score(scores)
    open_yet = torch.ones_like(top)
    gates = []
    for u in scores:
        gate = (u == top).to(u.dtype) * open_yet
        open_yet = open_yet - gate
        gates.append(gate)
    return gates


def mean_gates(scores: Sequence[Tensor]) -> list[Tensor]:
    """The same share for every region: what any entropy chooses when it alone counts."""
    return [torch.full_like(u, 1.0 / len(scores)) for u in scores]


def shannon_gates(scores: Sequence[Tensor], eta: float | Tensor) -> list[Tensor]:
    """``softmax(eta * scores)``.

    Two regions go through the logistic function, which is exactly what Swish uses.
    """
    if len(scores) == 2:
        lean = eta * (scores[1] - scores[0])
        return [sigmoid(-lean), sigmoid(lean)]
    top = max_score(
        scores
    )  # not detached: the winner's weight is then 1 with derivative 0, and nothing cancels
    weights = [torch.exp(eta * (u - top)) for u in scores]
    total = sum(weights[1:], weights[0])
    return [w / total for w in weights]


def tsallis_gates(scores: Sequence[Tensor], eta: float | Tensor, alpha: float) -> list[Tensor]:
    r"""``entmax_alpha(eta * scores)``.

    The gates that maximise ``<T, eta u> + H(T)``, H Tsallis, 1 < alpha <= 2.

    .. math:: T_r = [(\alpha - 1) \eta u_r - \tau]_+^{1 / (\alpha - 1)}, \qquad \sum_r T_r = 1

    ``alpha = 2`` is sparsemax. The sum falls and is convex in :math:`\tau`, so Newton's method from
    the left never overshoots. The last two steps alone are differentiated: from the solution, two
    steps carry first and second derivatives exactly.
    """
    top = max_score(scores)
    z = [(alpha - 1) * (eta * (u - top)) for u in scores]
    fixed = [v.detach() for v in z]
    tau = torch.full_like(fixed[0], -1.0)
    for _ in range(math.ceil(math.log(len(scores))) + _SURE):
        tau = _newton_step(fixed, tau, alpha)
    for _ in range(2):
        tau = _newton_step(z, tau, alpha)
    return [_power(v - tau, 1 / (alpha - 1)) for v in z]


def max_score(scores: Sequence[Tensor]) -> Tensor:
    """The largest score, element by element; NaN where any is NaN."""
    top = scores[0]
    for u in scores[1:]:
        top = torch.maximum(top, u)
    return top


def _newton_step(z: Sequence[Tensor], tau: Tensor, alpha: float) -> Tensor:
    p = 1 / (alpha - 1)
    excess = sum((_power(v - tau, p) for v in z), torch.zeros_like(tau)) - 1
    slope = sum((p * _power(v - tau, p - 1) for v in z), torch.zeros_like(tau))
    return tau + excess / slope


def _power(base: Tensor, exponent: float) -> Tensor:
    """``max(base, 0) ** exponent``, 0 below 0 also for exponent 0, with finite derivatives."""
    positive = ~(base <= 0)  # true for NaN, which must pass
    if exponent == 0:
        return torch.where(positive, 1.0 + 0.0 * torch.where(positive, base, 0.0), 0.0)
    return torch.where(positive, torch.where(positive, base, 1.0) ** exponent, 0.0)
