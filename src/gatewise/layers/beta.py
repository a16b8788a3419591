r"""What layers with a beta share.

Gates between the mean (0), the soft form (1/2) and the maximum (1) of scores.

Note [Measured from the top]. With :math:`d_r = u_r - \max u` and :math:`w_r = \exp(\eta d_r)` the
soft output is :math:`\max u + \sum_r w_r d_r / \sum_r w_r`. All sums are then of bounded terms, for
:math:`|\eta w_r d_r| \le 1/e`: no derivative overflows however large scores or :math:`\eta` are,
and what is common to all scores is not rounded again.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gatewise.units import (
    LARGEST_LOGIT,
    Device,
    DType,
    allocating,
    at_least,
    check_beta,
    check_flag,
    region_gates,
    replace_infinities,
    trained_eta,
)

_NO_SHARE = -1000.0  # its exponential is 0 in float64 too


class BetaLayer(nn.Module):
    """A layer with a fixed beta, or with trainable ones held as logits.

    ``eta = beta / (1 - beta) = exp(logit)``.
    """

    beta_logit: nn.Parameter | None

    def __init__(
        self, layer: str, beta: float, *, learn_beta: bool, count: int, device: Device, dtype: DType
    ) -> None:
        super().__init__()
        self.layer_name = layer
        self.learn_beta = check_flag(layer, "learn_beta", learn_beta)
        self.start = check_beta(layer, beta, learn=learn_beta)
        with allocating(layer, device, dtype):
            logit = (
                nn.Parameter(torch.empty(count, device=device, dtype=dtype)) if learn_beta else None
            )
        self.register_parameter("beta_logit", logit)

    def reset_parameters(self) -> None:
        """Set a trainable beta to its starting value."""
        if self.beta_logit is not None:
            nn.init.constant_(self.beta_logit, math.log(self.start) - math.log1p(-self.start))

    @property
    def beta(self) -> float | Tensor:
        """The present beta: a number, or a tensor of one number or one per channel."""
        return self.start if self.beta_logit is None else torch.sigmoid(self.beta_logit)

    def steepness(self) -> float | Tensor:
        """``eta = beta / (1 - beta)``.

        Exactly 0 and infinite at the ends, a tensor where beta is trained.
        """
        if self.beta_logit is not None:
            return trained_eta(self.beta_logit)
        if self.start in (0.0, 1.0):
            return math.inf if self.start else 0.0
        return max(self.start / (1 - self.start), math.exp(-LARGEST_LOGIT))


def soft_maximum(scores: Sequence[Tensor], top: Tensor, eta: float | Tensor) -> Tensor:
    r"""``sum_r T_r u_r`` for ``T = softmax(eta u)``, given finite scores ``u`` and their maximum ``top``.

    The smallest finite number is a score that has no share. See Note [Measured from the top].
    """
    total, lean = torch.zeros_like(top), torch.zeros_like(top)
    for behind in _behind(scores, top):
        weight = _weight(behind, eta)
        total = total + weight
        lean = lean + weight * behind
    return top + lean / total


def gates(scores: Sequence[Tensor], eta: float | Tensor) -> list[Tensor]:
    """The selection T: hard for an infinite ``eta``, the mean for 0, ``softmax(eta u)`` otherwise."""
    if isinstance(eta, float) and eta == math.inf:
        return region_gates.hard_gates(scores)
    if isinstance(eta, float) and eta == 0:
        return region_gates.mean_gates(scores)
    bounded = [replace_infinities(u) for u in scores]
    weights = [_weight(behind, eta) for behind in _behind(bounded, region_gates.max_score(bounded))]
    total = sum(weights[1:], weights[0])
    return [weight / total for weight in weights]


def _weight(behind: Tensor, eta: float | Tensor) -> Tensor:
    """``exp(eta * behind)``, a constant where it is 0.

    A second derivative would square ``behind``, and overflow.
    """
    return torch.exp(at_least(eta * behind, _NO_SHARE))


def _behind(scores: Sequence[Tensor], top: Tensor) -> list[Tensor]:
    """How far each score is below the top, at most so far that the sum of all stays finite."""
    lowest = -torch.finfo(top.dtype).max / (4 * len(scores))
    ahead = replace_infinities(top)
    return [at_least(u - ahead, lowest) for u in scores]
