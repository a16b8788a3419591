"""Eigenvalues, curve, condition and effective rank, against closed forms and numpy."""

import math

import numpy as np
import pytest
import torch

import gatewise as gw
from gatewise.errors import ArgumentError


def gram(n: int, rank: int, dtype=torch.float64) -> torch.Tensor:
    features = torch.randn(n, rank, dtype=dtype, generator=torch.Generator().manual_seed(n * rank))
    return features @ features.T


def test_eigenvalues_and_curve_are_numpys():
    kernel = gram(12, 20)
    found = gw.analysis.spectrum(kernel)
    want = np.linalg.eigvalsh(kernel.numpy())
    np.testing.assert_allclose(found.eigenvalues, want, rtol=1e-12)
    np.testing.assert_allclose(found.curve(), np.cumsum(want), rtol=1e-12)
    assert found.condition == pytest.approx(np.linalg.cond(kernel.numpy()), rel=1e-10)


def test_effective_rank_counts_equal_directions():
    assert gw.analysis.spectrum(torch.eye(9)).effective_rank == pytest.approx(9)
    assert gw.analysis.spectrum(torch.ones(9, 9)).effective_rank == pytest.approx(1)
    assert gw.analysis.spectrum(
        torch.diag(torch.tensor([0.0, 2.0, 2.0]))
    ).effective_rank == pytest.approx(2)
    assert gw.analysis.spectrum(torch.zeros(3, 3)).effective_rank == 0
    assert gw.analysis.spectrum(
        torch.diag(torch.tensor([3.0, 1.0]))
    ).effective_rank == pytest.approx(4 / 3**0.75)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_kernel_of_low_rank_has_no_finite_condition(dtype: torch.dtype):
    assert gw.analysis.spectrum(gram(10, 4, dtype)).condition == math.inf
    assert gw.analysis.spectrum(gram(10, 10, torch.float64)).condition < math.inf


def test_normalising_makes_the_largest_eigenvalue_one():
    found = gw.analysis.spectrum(gram(8, 9)).normalised()
    assert float(found.eigenvalues[-1]) == 1
    assert found.condition == pytest.approx(gw.analysis.spectrum(gram(8, 9)).condition)
    with pytest.raises(ArgumentError, match="zero"):
        gw.analysis.spectrum(torch.zeros(3, 3)).normalised()


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (torch.ones(2, 3), "square"),
        (torch.ones(2, 2, 2), "square"),
        (torch.ones(0, 0), "square"),
        (torch.ones(2, 2, dtype=torch.int64), "floating-point"),
        (torch.ones(2, 2, dtype=torch.complex64), "floating-point"),
        (torch.tensor([[1.0, float("nan")], [float("nan"), 1.0]]), "NaN"),
        (torch.tensor([[1.0, 0.5], [0.0, 1.0]]), "not symmetric"),
        (torch.tensor([[1.0, 2.0], [2.0, 1.0]]), "negative eigenvalue"),
        ([[1.0]], "tensor"),
    ],
)
def test_what_is_no_kernel_is_refused(kernel, said: str):
    with pytest.raises(ArgumentError, match=said):
        gw.analysis.spectrum(kernel)


def test_the_record_prints_plots_and_becomes_plain():
    found = gw.analysis.spectrum(torch.diag(torch.tensor([1.0, 4.0])))
    assert found.to_dict()["eigenvalues"] == [1.0, 4.0]
    assert "condition=4" in repr(found) and "condition=4" in found._repr_html_()
    (line,) = found.plot().get_lines()
    assert list(line.get_ydata()) == [1.0, 5.0]
