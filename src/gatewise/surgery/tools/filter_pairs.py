"""Find filters that are opposite to each other, and the one direction that represents both."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

MARGIN = 1e-6  # the error of a cosine from a matrix product, so that no candidate is missed


class Pair(NamedTuple):
    """Two filters, the lower number first.

    ``mismatch`` is the sine of the angle between one filter and the negative of the other: 0 for
    opposite filters.
    """

    first: int
    second: int
    mismatch: float


def opposite_pairs(filters: Tensor, tolerance: float) -> list[Pair]:
    """Return the pairs to merge: as many as possible, with the smallest total mismatch.

    A filter is in at most one pair. Choosing the best pair first would not find the most pairs: it
    may leave two filters without a partner that could both have had one.

    Args:
        filters: The filters of one layer, ``(C, ...)``.
        tolerance: The largest mismatch of a pair.
    """
    import networkx  # imported here because it is slow, and torch itself needs it only to compile

    candidates = networkx.Graph()
    for pair in candidate_pairs(filters, tolerance):
        candidates.add_edge(pair.first, pair.second, weight=1 - pair.mismatch**2, pair=pair)
    chosen = networkx.max_weight_matching(candidates, maxcardinality=True)
    return sorted(candidates.edges[edge]["pair"] for edge in chosen)


def candidate_pairs(filters: Tensor, tolerance: float) -> list[Pair]:
    """Return every pair of filters that are opposite within ``tolerance``.

    A filter of zeros is in no pair.
    """
    rows = filters.detach().flatten(1).double()
    lengths = rows.norm(dim=1, keepdim=True)
    rows = rows / torch.where(lengths > 0, lengths, 1.0)
    cosines = rows @ rows.mT
    largest_cosine = MARGIN - (1 - min(tolerance, 1.0) ** 2) ** 0.5
    opposite = (cosines <= largest_cosine) & (cosines < 0)
    first, second = opposite.triu(1).nonzero().unbind(1)
    # The sine comes from the sum of both filters: near 180 degrees, rounding of the cosine would
    # lose it.
    apart = (rows[first] + rows[second]).norm(dim=1)
    sines = apart * (1 - apart.square() / 4).clamp(min=0).sqrt()
    pairs = map(Pair, first.tolist(), second.tolist(), sines.tolist())
    return [pair for pair in pairs if pair.mismatch <= tolerance]


def nearest_mismatch(filters: Tensor) -> float | None:
    """Return the smallest mismatch of two filters, or ``None`` if no two point apart."""
    return min((pair.mismatch for pair in candidate_pairs(filters, 1.0)), default=None)


def common_direction(filters: Tensor, pair: Pair) -> tuple[Tensor, Tensor]:
    r"""Return the rank-1 fit :math:`(w_i, w_j) \approx (\alpha d, -\beta d)` of least squares.

    Args:
        filters: The filters of one layer, ``(C, ...)``.
        pair: The two filters to fit.

    Returns:
        The direction :math:`d`, ``(n,)`` of length 1, and the positive scales
        :math:`(\alpha, \beta)`, ``(2,)``.
    """
    both = torch.stack((filters[pair.first].flatten(), -filters[pair.second].flatten()))
    direction = torch.linalg.svd(both, full_matrices=False).Vh[0]
    scales = both @ direction
    sign = torch.where(scales.sum() < 0, -1.0, 1.0).to(scales)
    return direction * sign, scales * sign


def fitted(filters: Tensor, pairs: Sequence[Pair]) -> Tensor:
    """Return ``filters`` with each pair projected onto its common direction."""
    result = filters.clone()
    for pair in pairs:
        direction, (positive, negative) = common_direction(filters, pair)
        result[pair.first] = (positive * direction).view_as(result[pair.first])
        result[pair.second] = (-negative * direction).view_as(result[pair.second])
    return result
