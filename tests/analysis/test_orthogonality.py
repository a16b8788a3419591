"""Coherence, Gram spectrum and frame bounds against their definitions."""

import pytest
import torch
from torch import nn

import gatewise as gw
from gatewise.analysis.filters import welch_bound


def look(weight: torch.Tensor) -> gw.analysis.LayerOrthogonality:
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.weight.data = weight
    return gw.analysis.orthogonality(layer).layers[0]


def test_orthogonal_filters_have_no_coherence_and_a_flat_spectrum() -> None:
    found = look(3 * torch.linalg.qr(torch.randn(12, 8))[0].T)
    assert found.coherence < 1e-6 and found.overlap < 1e-10
    torch.testing.assert_close(
        found.spectrum, torch.ones(8, dtype=torch.float64), atol=1e-6, rtol=0
    )
    assert found.frame_bounds == pytest.approx((9, 9), rel=1e-5)


def test_coherence_and_overlap_are_their_double_loops() -> None:
    weight = torch.randn(7, 5, dtype=torch.float64)
    cosines = [
        float(a @ b / a.norm() / b.norm())
        for i, a in enumerate(weight)
        for j, b in enumerate(weight)
        if i != j
    ]
    found = look(weight)
    assert found.coherence == pytest.approx(max(map(abs, cosines)))
    assert found.overlap == pytest.approx(sum(c * c for c in cosines))


def test_frame_bounds_hold_and_are_attained() -> None:
    weight = torch.randn(9, 4, dtype=torch.float64)
    low, high = look(weight).frame_bounds
    x = torch.randn(4, 20000, dtype=torch.float64)
    ratio = (weight @ x).square().sum(0) / x.square().sum(0)
    assert low <= ratio.min() * (1 + 1e-12) and ratio.max() <= high * (1 + 1e-12)
    assert ratio.min() / low < 1.1 and high / ratio.max() < 1.1


def test_no_directions_are_less_coherent_than_welchs_bound_and_three_in_the_plane_attain_it() -> (
    None
):
    third = torch.tensor([0.0, 2.0, 4.0]) * torch.pi / 3
    triad = look(torch.stack((third.cos(), third.sin()), 1))
    assert triad.coherence == pytest.approx(welch_bound(3, 2), abs=1e-6) == triad.least_coherence
    assert welch_bound(4, 6) == 0
    assert all(look(torch.randn(20, 6)).coherence >= welch_bound(20, 6) for _ in range(20))


def test_zero_filters_are_counted_and_the_record_prints_saves_and_draws() -> None:
    found = gw.analysis.orthogonality(
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1))
    )
    assert [
        layer["layer" if "layer" in layer else "name"] for layer in found.to_dict()["layers"]
    ] == ["0", "2"]
    assert (
        found.plot() is not None and "coherence" in repr(found) and "<pre>" in found._repr_html_()
    )
    assert look(torch.zeros(3, 4)).zero_filters == 3
