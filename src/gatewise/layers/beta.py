r"""What layers with a beta share: gates from the mean (0) over the soft form (1/2) to the maximum.

Note [Measured from the top]. With :math:`d_r = u_r - \max u` and :math:`w_r = \exp(\eta d_r)` the
soft output is :math:`\max u + \sum_r w_r d_r / \sum_r w_r`. All sums then have bounded terms,
because :math:`|\eta w_r d_r| \le 1/e`. No derivative overflows, however large scores or
:math:`\eta` are, and what all scores share is not rounded again.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gatewise.units import (
    LARGEST_LOGIT,
    BetaModule,
    Device,
    DType,
    at_least,
    region_gates,
    replace_infinities,
    trained_eta,
)

_NO_SHARE = -1000.0  # its exponential is 0 in float64 too


class BetaLayer(BetaModule):
    """A layer with a fixed beta, or with trainable ones stored as logits.

    Args:
        layer: the layer's name in error messages.
        beta: the value of beta, or its start value.
        learn_beta: whether to train beta.
        count: the number of trainable betas.
        device: the device of the parameters.
        dtype: the dtype of the parameters.
    """

    def __init__(
        self,
        layer: str,
        beta: float,
        *,
        learn_beta: bool,
        count: int,
        device: Device,
        dtype: DType,
    ) -> None:
        super().__init__()
        self.layer_name = layer
        self.learn_beta = learn_beta
        self.add_beta(layer, beta, learn_beta, count, device, dtype)

    def steepness(self) -> float | Tensor:
        """Return ``eta = beta / (1 - beta)``.

        It is exactly 0 and infinite at the ends, and a tensor if beta is trained.
        """
        if self.beta_logit is not None:
            return trained_eta(self.beta_logit)
        if self.start in (0.0, 1.0):
            return math.inf if self.start else 0.0
        # Bounded below, so that its logarithm stays within that of trainable betas.
        return max(self.start / (1 - self.start), math.exp(-LARGEST_LOGIT))


def soft_maximum(scores: Sequence[Tensor], top: Tensor, eta: float | Tensor) -> Tensor:
    """Return ``sum_r T_r u_r`` for ``T = softmax(eta u)``.

    Args:
        scores: finite scores ``u``, one tensor per region. The smallest finite number marks a score
            without a share.
        top: the largest score, element by element.
        eta: the steepness.

    See Note [Measured from the top].
    """
    total = torch.zeros_like(top)
    weighted = torch.zeros_like(top)
    for gap in _gaps(scores, top):
        weight = _weight(gap, eta)
        total = total + weight
        weighted = weighted + weight * gap
    return top + weighted / total


def gates(scores: Sequence[Tensor], eta: float | Tensor) -> list[Tensor]:
    """Return the selection T: ``softmax(eta u)``, the mean for 0, hard for an infinite ``eta``."""
    if isinstance(eta, float) and eta == math.inf:
        return region_gates.hard_gates(scores)
    if isinstance(eta, float) and eta == 0:
        return region_gates.mean_gates(scores)
    bounded = [replace_infinities(u) for u in scores]
    weights = [_weight(gap, eta) for gap in _gaps(bounded, region_gates.max_score(bounded))]
    total = sum(weights[1:], weights[0])
    return [weight / total for weight in weights]


def _weight(gap: Tensor, eta: float | Tensor) -> Tensor:
    """Return ``exp(eta * gap)``, a constant where it is 0.

    A second derivative would square ``gap`` and overflow.
    """
    return torch.exp(at_least(eta * gap, _NO_SHARE))


def _gaps(scores: Sequence[Tensor], top: Tensor) -> list[Tensor]:
    """Return each score minus the top, bounded so that the sum of all stays finite."""
    lowest = -torch.finfo(top.dtype).max / (4 * len(scores))
    top = replace_infinities(top)
    return [at_least(u - top, lowest) for u in scores]
