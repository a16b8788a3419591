"""Filters that are each other's negative.

Which to pair, and the one direction that stands for both.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

MARGIN = (
    1e-6  # of a cosine from a matrix product: what it may be off by, so that no candidate is missed
)


class Pair(NamedTuple):
    """Two filters, the lower number first, and how far they are from opposite.

    The sine of the angle that is left.
    """

    first: int
    second: int
    mismatch: float


def opposite_pairs(filters: Tensor, tolerance: float) -> list[Pair]:
    """The pairs to merge: as many as there can be, each within ``tolerance``, and of those the best in total.

    ``filters`` is ``(C, ...)``. A filter belongs to one pair at most. Taking the best pair first would not do: it may
    leave two filters without a partner that could both have had one.
    """
    import networkx  # here: it takes time, and torch itself needs it only to compile

    candidates = networkx.Graph()
    for pair in candidate_pairs(filters, tolerance):
        candidates.add_edge(pair.first, pair.second, weight=1 - pair.mismatch**2, pair=pair)
    chosen = networkx.max_weight_matching(candidates, maxcardinality=True)
    return sorted(candidates.edges[edge]["pair"] for edge in chosen)


def candidate_pairs(filters: Tensor, tolerance: float) -> list[Pair]:
    """Every pair of filters that are opposite within ``tolerance``.

    A filter of zeros is in none.
    """
    rows = filters.detach().flatten(1).double()
    lengths = rows.norm(dim=1, keepdim=True)
    rows = rows / torch.where(lengths > 0, lengths, 1.0)
    near = -((1 - min(tolerance, 1.0) ** 2) ** 0.5) + MARGIN
    first, second = ((rows @ rows.mT <= near) & (rows @ rows.mT < 0)).triu(1).nonzero().unbind(1)
    # From the sum of both, for the sine of an angle near 180 degrees is lost in the rounding of its
    # cosine.
    apart = (rows[first] + rows[second]).norm(dim=1)
    sines = apart * (1 - apart.square() / 4).clamp(min=0).sqrt()
    found = zip(first.tolist(), second.tolist(), sines.tolist(), strict=True)
    return [Pair(*each) for each in found if each[2] <= tolerance]


def nearest_mismatch(filters: Tensor) -> float | None:
    """How far the most opposite two filters are from opposite.

    ``None`` if no two point away from each other.
    """
    return min((pair.mismatch for pair in candidate_pairs(filters, 1.0)), default=None)


def common_direction(filters: Tensor, pair: Pair) -> tuple[Tensor, Tensor]:
    r"""``direction, scales``.

    The rank-1 fit :math:`(w_i, w_j) \approx (\alpha d, -\beta d)` of least squared error.

    ``direction`` is ``(n,)`` of length 1, ``scales`` is ``(2,)`` with both :math:`\alpha, \beta`
    positive.
    """
    both = torch.stack((filters[pair.first].flatten(), -filters[pair.second].flatten()))
    direction = torch.linalg.svd(both, full_matrices=False).Vh[0]
    scales = both @ direction
    sign = torch.where(scales.sum() < 0, -1.0, 1.0).to(scales)
    return direction * sign, scales * sign


def fitted(filters: Tensor, pairs: Sequence[Pair]) -> Tensor:
    """``filters``, those in pairs replaced by their parts along their common direction."""
    made = filters.clone()
    for pair in pairs:
        direction, (positive, negative) = common_direction(filters, pair)
        made[pair.first] = (positive * direction).view_as(made[pair.first])
        made[pair.second] = (-negative * direction).view_as(made[pair.second])
    return made
