"""Which filters are paired, and what stands for a pair.

Against every matching there is, and brute force.
"""

import math
from collections.abc import Iterator

import pytest
import torch

from gatewise.surgery.tools import (
    candidate_pairs,
    common_direction,
    fitted,
    opposite_pairs,
)


def matchings(edges: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Every set of edges of which no two share an end."""
    if not edges:
        yield []
        return
    (i, j), *rest = edges
    yield from matchings(rest)
    for found in matchings([edge for edge in rest if not {i, j} & set(edge)]):
        yield [(i, j), *found]


def sine(a, b) -> float:
    cosine = float(a.flatten() @ b.flatten() / (a.norm() * b.norm()))
    return math.sqrt(max(0.0, 1 - cosine**2)) if cosine < 0 else math.inf


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("tolerance", [0.5, 0.8, 0.95])
def test_as_many_pairs_as_can_be_with_the_least_mismatch_of_all_matchings(
    seed: int, tolerance: float
):
    filters = torch.randn(8, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    sines = {(i, j): sine(filters[i], filters[j]) for i in range(8) for j in range(i + 1, 8)}
    every = matchings([edge for edge, value in sines.items() if value <= tolerance])
    best = min(every, key=lambda chosen: (-len(chosen), sum(sines[edge] ** 2 for edge in chosen)))
    found = opposite_pairs(filters, tolerance)
    assert sorted((pair.first, pair.second) for pair in found) == sorted(best)
    for pair in found:
        assert pair.mismatch == pytest.approx(sines[(pair.first, pair.second)], abs=1e-9)


def test_taking_the_nearest_pair_first_would_find_one_pair_less():
    angles = (
        torch.tensor([0.0, 188.0, 177.0, -10.0]) * math.pi / 180
    )  # 0-2 is best, and leaves 1 and 3 apart
    filters = torch.stack((angles.cos(), angles.sin()), 1)
    nearest = min(candidate_pairs(filters, 0.15), key=lambda pair: pair.mismatch)
    assert (nearest.first, nearest.second) == (0, 2)
    assert [(pair.first, pair.second) for pair in opposite_pairs(filters, 0.15)] == [(0, 1), (2, 3)]


def test_mismatch_of_filters_that_are_opposite_is_zero_to_the_last_digits():
    u = torch.randn(1, 50, dtype=torch.float64)
    (pair,) = opposite_pairs(torch.cat((u, -3.7 * u)), 1e-14)
    assert pair.mismatch <= 1e-15


def test_filters_that_point_the_same_way_and_filters_of_zeros_are_no_pairs():
    u = torch.randn(1, 5)
    assert opposite_pairs(torch.cat((u, 2 * u, torch.zeros(2, 5))), 0.99) == []


def test_the_fit_has_the_least_squared_error_of_any_direction_and_positive_scales():
    filters = torch.randn(2, 6, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    filters[1] = -2 * filters[0] + 0.8 * torch.randn(
        6, generator=torch.Generator().manual_seed(5), dtype=torch.float64
    )
    (pair,) = opposite_pairs(filters, 0.9)
    direction, scales = common_direction(filters, pair)
    assert direction.norm().item() == pytest.approx(1, abs=1e-12)
    assert bool((scales > 0).all())
    least = (fitted(filters, [pair]) - filters).square().sum()
    assert least == pytest.approx(torch.linalg.svdvals(filters)[1].square().item(), rel=1e-10)
    for _ in range(200):
        other = torch.nn.functional.normalize(
            direction + 0.2 * torch.randn(6, dtype=torch.float64), dim=0
        )
        assert (filters - torch.outer(filters @ other, other)).square().sum() >= least - 1e-12
