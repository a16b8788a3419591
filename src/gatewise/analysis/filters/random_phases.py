"""Whether filters are more opposite than similar, compared with the same filters at random signs.

Filters that are all close to a few lines have opposite neighbours and similar neighbours, as many
of each as expected by chance, and differ from random filters in both respects. A filter and its
negative are on the same line. So the lines are kept, and only the sign of each filter is random.
"""

import math

import torch
from torch import Tensor

from gatewise.stats import p_at_most

# Neighbours of a filter that are compared. All of them have the same sign once in 2^31 draws.
NEAR = 32
TIE = 1e-12  # differences of this size are rounding


def excess(gram: Tensor) -> float:
    """How much more opposite than similar the closest filters are, on average over filters.

    ``gram`` are the cosines between filters, (K, K).
    """
    others = ~torch.eye(len(gram), dtype=torch.bool)
    rows = gram[others].reshape(len(gram), -1)
    return -float((rows.amin(1) + rows.amax(1)).mean())


def excess_by_chance(gram: Tensor, draws: int, generator: torch.Generator) -> Tensor:
    """The excess (draws,) of the same filters with random signs; its mean is 0.

    Args:
        gram: the cosines between filters, (K, K).
        draws: how often the signs are drawn.
        generator: the source of the signs.
    """
    size = gram.clone().fill_diagonal_(0).abs()
    near = size.topk(min(NEAR, len(gram) - 1)).indices  # (K, near)
    cosines = gram.gather(1, near)
    result = torch.empty(draws, dtype=torch.float64)
    for draw in range(draws):
        sign = torch.randint(0, 2, (len(gram),), generator=generator).to(gram).mul_(2).sub_(1)
        flipped = cosines * sign[near] * sign[:, None]
        result[draw] = -(flipped.amin(1) + flipped.amax(1)).mean()
    return result


def p_of_excess(observed: float, drawn: Tensor) -> float:
    """The probability of an excess at least as large as ``observed``.

    It is the larger of Student's p-value for one more draw and the share of draws that reach the
    observed excess. The share matters for few pairs, which have few outcomes: all of ``n`` pairs
    are opposite once in ``2^n`` draws, and the tail of a continuous density can be smaller.
    """
    if math.isnan(observed):
        return 1.0
    reached = float((drawn >= observed - TIE).double().mean())
    return max(p_at_most(-observed, -drawn), reached)
