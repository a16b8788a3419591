"""nu = y' H^-1 y against a linear solve, and what is said of kernels that have no inverse."""

import pytest
import torch
from gatewise_papers import deep_gated
from loops import for_each

from gatewise.errors import ArgumentError


def gram(n: int, rank: int, dtype=torch.float64) -> torch.Tensor:
    features = torch.randn(
        n, rank, dtype=torch.float64, generator=torch.Generator().manual_seed(n + rank)
    )
    return (features @ features.T).to(dtype)


LABELS = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0, 0.5])


def solved(kernel: torch.Tensor, y: torch.Tensor) -> float:
    return float((y.double() * torch.linalg.solve(kernel.double(), y.double())).sum())


def test_nu_is_the_solution_of_the_linear_system():
    kernel = gram(6, 9)
    found = deep_gated.alignment(kernel, LABELS)
    assert float(found) == found.nu == pytest.approx(solved(kernel, LABELS), rel=1e-12)


def test_normalising_divides_the_kernel_by_its_trace():
    kernel = gram(6, 9)
    hat = kernel / kernel.trace()
    assert float(deep_gated.alignment(kernel, LABELS, normalise=True)) == pytest.approx(
        solved(hat, LABELS), rel=1e-12
    )


@for_each("normalise", [False, True])
def test_the_ridge_is_a_share_of_the_mean_eigenvalue(normalise: bool):
    kernel = gram(6, 2)
    base = kernel / kernel.trace() if normalise else kernel
    ridged = base + 0.01 * base.trace() / 6 * torch.eye(6, dtype=torch.float64)
    found = deep_gated.alignment(kernel, LABELS, normalise=normalise, ridge=0.01)
    assert found.nu == pytest.approx(solved(ridged, LABELS), rel=1e-10)


def test_columns_of_labels_are_summed_over():
    kernel = gram(6, 9)
    both = torch.stack([LABELS, LABELS.flip(0)], 1)
    want = solved(kernel, LABELS) + solved(kernel, LABELS.flip(0))
    assert deep_gated.alignment(kernel, both).nu == pytest.approx(want, rel=1e-12)


def test_labels_along_the_large_direction_are_better_aligned():
    kernel = torch.diag(torch.tensor([1.0, 10.0]))
    along, across = torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.0])
    assert deep_gated.alignment(kernel, along).nu == pytest.approx(0.1)
    assert deep_gated.alignment(kernel, across).nu == pytest.approx(1.0)


@for_each("dtype", [torch.float32, torch.float64])
def test_a_singular_kernel_is_an_error_that_names_the_ridge(dtype: torch.dtype):
    with pytest.raises(ArgumentError, match=r"singular.*ridge"):
        deep_gated.alignment(gram(6, 3, dtype), LABELS)


def test_singular_is_judged_by_the_rounding_of_the_kernels_own_dtype():
    nearly = torch.diag(torch.tensor([1e-7, 1.0], dtype=torch.float64))
    y = torch.ones(2)
    assert deep_gated.alignment(nearly, y).nu == pytest.approx(1e7 + 1)
    with pytest.raises(ArgumentError, match="singular"):
        deep_gated.alignment(nearly.float(), y)


@for_each(
    ("y", "options", "said"),
    [
        (torch.ones(5), {}, "one real label"),
        (torch.ones(6, 0), {}, "one real label"),
        (torch.ones(6, dtype=torch.complex64), {}, "one real label"),
        ([1.0] * 6, {}, "one real label"),
        (torch.full((6,), float("inf")), {}, "infinity"),
        (torch.ones(6), {"ridge": 0.0}, "ridge"),
        (torch.ones(6), {"ridge": float("nan")}, "ridge"),
    ],
)
def test_labels_and_ridges_that_make_no_sense_are_refused(y, options: dict, said: str):
    with pytest.raises(ArgumentError, match=said):
        deep_gated.alignment(gram(6, 9), y, **options)


def test_a_zero_kernel_is_refused_even_with_a_ridge():
    with pytest.raises(ArgumentError, match="zero"):
        deep_gated.alignment(torch.zeros(6, 6), LABELS, ridge=0.1)


def test_integer_labels_are_as_good_as_real_ones():
    kernel = gram(6, 9)
    y = torch.tensor([1, -1, 1, 1, -1, 1])
    assert deep_gated.alignment(kernel, y).nu == deep_gated.alignment(kernel, y.double()).nu


def test_the_record_prints_plots_and_becomes_plain():
    found = deep_gated.alignment(torch.diag(torch.tensor([1.0, 4.0])), torch.tensor([1.0, 2.0]))
    assert found.to_dict()["nu"] == pytest.approx(2.0)
    assert "nu=2" in repr(found) and "nu=2" in found._repr_html_()
    (line,) = found.plot().get_lines()
    assert list(line.get_ydata()) == pytest.approx([0.8, 1.0])
