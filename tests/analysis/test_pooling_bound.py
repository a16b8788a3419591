"""The bound of theorem 2.2.

Its eigenvalues against matrices written out, and random inputs against it.
"""

import math

import pytest
import torch
from torch import Tensor, nn

import gatewise as gw
from gatewise.errors import ArgumentError


def sparse(
    filters: int, size: int, region: int, share: float, generator: torch.Generator
) -> Tensor:
    """At most one shift of each filter in a region, with a factor of either sign (1, K, size)."""
    found = torch.zeros(1, filters, size, dtype=torch.float64)
    for k in range(filters):
        for start in range(0, size - size % region, region):
            if float(torch.rand((), generator=generator)) < share:
                place = start + int(torch.randint(0, region, (), generator=generator))
                found[0, k, place] = torch.randn((), generator=generator, dtype=torch.float64)
    return found


def shifted(conv: nn.Conv1d, size: int) -> Tensor:
    """Each shift of each filter as a column (C * size, K * responses), by loops."""
    columns = []
    width = conv.kernel_size[0]
    for filter_ in conv.weight.detach().double():
        for start in range(size - width + 1):
            image = torch.zeros(conv.in_channels, size, dtype=torch.float64)
            image[:, start : start + width] = filter_
            columns.append(image.flatten())
    return torch.stack(columns, 1)


def by_hand(
    conv: nn.Conv1d, c: Tensor, x: Tensor, region: int
) -> tuple[float, float, float, float] | None:
    """Both eigenvalues and bounds; None if a shift with a response of its sign is in no region."""
    matrix = shifted(conv, x.shape[-1])
    responses = (matrix.T @ x.flatten()).reshape(c.shape[1:])
    present, winning = [], []
    for k in range(c.shape[1]):
        for place in c[0, k].nonzero().flatten().tolist():
            present.append(k * c.shape[2] + place)
            start = place // region * region
            sign = 1 if c[0, k, place] > 0 else -1
            inside = responses[k, start : start + region] * sign
            if start + region > c.shape[2] or float(inside.max()) <= 0:
                if float(responses[k, place]) * sign > 0:
                    return None
                continue
            winning.append(k * c.shape[2] + start + int(inside.argmax()))
    least = min(v for v in torch.linalg.svdvals(matrix[:, present]).square().tolist() if v > 1e-10)
    largest = float(torch.linalg.svdvals(matrix[:, winning])[0] ** 2)
    gap = max(largest - least, 0)
    return least, largest, math.sqrt(gap / least), math.sqrt(gap / largest)


@pytest.mark.slow
def test_eigenvalues_are_those_of_matrices_and_no_ratio_exceeds_the_bound() -> None:
    generator = torch.Generator().manual_seed(0)
    held = outside = 0
    for trial in range(300):
        torch.manual_seed(trial)
        filters, region, size = 1 + trial % 3, 3, 12
        conv, pool = nn.Conv1d(1 + trial % 2, filters, 4, bias=False), nn.MaxPool1d(region)
        c = sparse(filters, size - 3, region, 0.5, generator)
        if not c.any():
            continue
        x = (shifted(conv, size) @ c.flatten()).reshape(1, -1, size)
        found, want = (
            gw.analysis.reconstruct(conv, x, pool=pool, coefficients=c),
            by_hand(conv, c, x, region),
        )
        assert found.bound is not None and found.eigenvalues is not None
        assert found.tighter_bound is not None
        if want is None:
            outside += 1
            assert found.bound.isnan().all() and found.tighter_bound.isnan().all()
            continue
        numbers = (*found.eigenvalues[0].tolist(), float(found.bound), float(found.tighter_bound))
        assert numbers == pytest.approx(want, rel=1e-6, abs=1e-6)
        assert float(found.ratio) <= float(found.tighter_bound) + 1e-8
        assert float(found.tighter_bound) <= float(found.bound) + 1e-8
        held += 1
    assert held > 150 and outside == 0  # every shift has a region, and there is no bias


def test_the_bound_needs_what_a_border_or_a_bias_hides() -> None:
    conv, pool = nn.Conv1d(1, 1, 1), nn.MaxPool1d(3)
    conv.weight.data = torch.ones(1, 1, 1)
    conv.bias = nn.Parameter(torch.zeros(1))
    c = torch.zeros(1, 1, 8, dtype=torch.float64)
    c[0, 0, 1] = 2.0
    held = gw.analysis.reconstruct(conv, c.clone(), pool=pool, coefficients=c)
    assert held.bound is not None and float(held.bound) == pytest.approx(0)
    conv.bias = nn.Parameter(torch.tensor([-3.0]))  # the response of 2 is not positive any more
    hidden = gw.analysis.reconstruct(conv, c.clone(), pool=pool, coefficients=c)
    assert hidden.bound is not None and hidden.bound.isnan().all()
    conv.bias = nn.Parameter(torch.zeros(1))
    c = torch.zeros(1, 1, 8, dtype=torch.float64)
    c[0, 0, 7] = 2.0  # the last two places are in no region of three
    border = gw.analysis.reconstruct(conv, c.clone(), pool=pool, coefficients=c)
    assert border.bound is not None and border.bound.isnan().all()


def test_long_coefficients_of_dependent_shifts_widen_the_bound() -> None:
    """Two equal filters with factors 10 and -9 make their sum once: the input is short."""
    conv, pool = nn.Conv1d(1, 2, 1, bias=False), nn.MaxPool1d(2)
    conv.weight.data = torch.ones(2, 1, 1)
    c = torch.zeros(1, 2, 4, dtype=torch.float64)
    c[0, 0, 0], c[0, 1, 0] = 10.0, -9.0
    x = c.sum(1, keepdim=True)
    found = gw.analysis.reconstruct(conv, x, pool=pool, coefficients=c)
    assert found.eigenvalues is not None
    assert float(found.eigenvalues[0, 0]) == pytest.approx(1 / 181)  # |x|^2 / |c|^2, and not 2


def test_orthonormal_shifts_lose_nothing_and_the_bound_says_so() -> None:
    conv, pool = nn.Conv2d(1, 2, 2, stride=2, bias=False), nn.MaxPool2d(2)
    conv.weight.data = torch.tensor([[[[1.0, 0], [0, 0]]], [[[0, 0], [0, 1.0]]]])
    c = torch.zeros(1, 2, 4, 4, dtype=torch.float64)
    c[0, 0, 0, 1], c[0, 1, 2, 3] = 2.0, -3.0
    x = torch.nn.functional.conv_transpose2d(c, conv.weight.detach().double(), stride=2)
    found = gw.analysis.reconstruct(conv, x, pool=pool, coefficients=c)
    assert found.eigenvalues is not None and found.bound is not None
    assert found.eigenvalues[0].tolist() == pytest.approx([1, 1])
    assert float(found.bound) == pytest.approx(0, abs=1e-6) and float(found.ratio) == pytest.approx(
        0, abs=1e-8
    )
    assert found.to_dict()["bound"] == pytest.approx([0], abs=1e-6)


def test_what_the_theorem_does_not_cover_is_said() -> None:
    conv, pool = nn.Conv1d(1, 2, 3, bias=False), nn.MaxPool1d(2)
    c = torch.zeros(1, 2, 8, dtype=torch.float64)
    c[0, 0, 0] = 1.0
    x = (shifted(conv, 10) @ c.flatten()).reshape(1, 1, 10)
    assert gw.analysis.reconstruct(conv, x, pool=pool).bound is None
    with pytest.raises(ArgumentError, match="is not the sum"):
        gw.analysis.reconstruct(conv, x + 1, pool=pool, coefficients=c)
    with pytest.raises(ArgumentError, match="max-pooling"):
        gw.analysis.reconstruct(conv, x, coefficients=c)
    with pytest.raises(ArgumentError, match="do not overlap"):
        gw.analysis.reconstruct(conv, x, pool=nn.MaxPool1d(3, 1), coefficients=c)
    with pytest.raises(ArgumentError, match="one number for each response"):
        gw.analysis.reconstruct(conv, x, pool=pool, coefficients=c[:, :1])
    c[0, 0, 1] = 1.0
    with pytest.raises(ArgumentError, match="two shifts of one filter"):
        gw.analysis.reconstruct(
            conv, (shifted(conv, 10) @ c.flatten()).reshape(1, 1, 10), pool=pool, coefficients=c
        )
