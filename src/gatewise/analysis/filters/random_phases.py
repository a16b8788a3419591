"""Are filters more opposite than alike, by more than phases drawn by a coin would make them?

Filters that only lie near a few lines have opposite neighbours and similar ones, as many as chance
has it, and are far from random filters in both senses. A filter and its negative are on the same
line; so the lines are held, and what is drawn anew is which way along its line each filter points.
"""

import math

import torch
from torch import Tensor

from gatewise.stats import p_at_most

NEAR = 32  # neighbours of a filter that are looked at: all of one sign once in 2^31 draws
TIE = 1e-12


def excess(gram: Tensor) -> float:
    """By how much filters with these cosines (K, K) are more opposite than alike, at their nearest, on average."""
    others = ~torch.eye(len(gram), dtype=torch.bool)
    rows = gram[others].reshape(len(gram), -1)
    return -float((rows.amin(1) + rows.amax(1)).mean())


def excess_by_chance(gram: Tensor, draws: int, generator: torch.Generator) -> Tensor:
    """The same (draws,) with the sign of every filter drawn by a coin.

    0 on average, whatever the lines are.
    """
    size = gram.clone().fill_diagonal_(0).abs()
    near = size.topk(min(NEAR, len(gram) - 1)).indices  # (K, near)
    cosines = gram.gather(1, near)
    found = torch.empty(draws, dtype=torch.float64)
    for draw in range(draws):
        sign = torch.randint(0, 2, (len(gram),), generator=generator).to(gram).mul_(2).sub_(1)
        flipped = cosines * sign[near] * sign[:, None]
        found[draw] = -(flipped.amin(1) + flipped.amax(1)).mean()
    return found


def p_of_excess(observed: float, drawn: Tensor) -> float:
    """Probability of an excess as large.

    Student's for one more draw, or the share of draws that reach it if larger.

    Few pairs have few outcomes, which no tail of a density knows of: all of ``n`` are opposite once
    in ``2^n``.
    """
    reached = float((drawn >= observed - TIE).double().mean())
    return 1.0 if math.isnan(observed) else max(p_at_most(-observed, -drawn), reached)
