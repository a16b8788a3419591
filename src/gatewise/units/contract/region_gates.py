"""Gates from region scores: hard, entropy-penalised (Shannon) or sparse (Tsallis).

Scores and gates are lists of tensors, one per region, combined element by element. Nothing is
stacked, so the results keep the layout of the scores.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

# Newton steps after the log(R) steps that come near the solution. Each doubles the digits, so six
# are enough.
_EXTRA_STEPS = 8


def hard_gates(scores: Sequence[Tensor]) -> list[Tensor]:
    """Return 1 for the first largest score and 0 for the others; all are 0 where a score is NaN."""
    top = max_score(scores)
    not_chosen = torch.ones_like(top)
    gates = []
    for u in scores:
        gate = (u == top).to(u.dtype) * not_chosen
        not_chosen = not_chosen - gate
        gates.append(gate)
    return gates


def mean_gates(scores: Sequence[Tensor]) -> list[Tensor]:
    """Return the same share for every region, which is what the entropy alone chooses."""
    return [torch.full_like(u, 1.0 / len(scores)) for u in scores]


def shannon_gates(scores: Sequence[Tensor], eta: float | Tensor) -> list[Tensor]:
    """Return ``softmax(eta * scores)``.

    Two regions are computed with the logistic function, exactly as in Swish.
    """
    if len(scores) == 2:
        lean = eta * (scores[1] - scores[0])
        return [torch.sigmoid(-lean), torch.sigmoid(lean)]
    # Not detached: the winner's weight is then 1 with derivative 0, and nothing cancels.
    top = max_score(scores)
    weights = [torch.exp(eta * (u - top)) for u in scores]
    total = sum(weights[1:], weights[0])
    return [w / total for w in weights]


def tsallis_gates(scores: Sequence[Tensor], eta: float | Tensor, alpha: float) -> list[Tensor]:
    r"""Return ``entmax_alpha(eta * scores)``.

    These gates maximise ``<T, eta u> + H(T)`` with Tsallis entropy H, for 1 < alpha <= 2.

    .. math:: T_r = [(\alpha - 1) \eta u_r - \tau]_+^{1 / (\alpha - 1)}, \qquad \sum_r T_r = 1

    ``alpha = 2`` is sparsemax. The sum falls and is convex in :math:`\tau`, so Newton's method from
    the left never overshoots. Only the last two steps are differentiated: from the solution, two
    steps carry first and second derivatives exactly.
    """
    top = max_score(scores)
    z = [(alpha - 1) * (eta * (u - top)) for u in scores]
    fixed = [v.detach() for v in z]
    tau = torch.full_like(fixed[0], -1.0)
    for _ in range(math.ceil(math.log(len(scores))) + _EXTRA_STEPS):
        tau = _newton_step(fixed, tau, alpha)
    for _ in range(2):
        tau = _newton_step(z, tau, alpha)
    return [_power(v - tau, 1 / (alpha - 1)) for v in z]


def max_score(scores: Sequence[Tensor]) -> Tensor:
    """Return the largest score, element by element; NaN where any is NaN."""
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
    """Return ``max(base, 0) ** exponent`` with finite derivatives.

    It is 0 below 0, also for exponent 0.
    """
    positive = ~(base <= 0)  # true for NaN, which must pass
    if exponent == 0:
        return torch.where(positive, 1.0 + 0.0 * torch.where(positive, base, 0.0), 0.0)
    return torch.where(positive, torch.where(positive, base, 1.0) ** exponent, 0.0)
