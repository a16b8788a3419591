"""The ideal spectrum of random gates, against the eigenvalues of its matrix."""

import pytest
import torch
from gatewise_papers.deep_gated import ideal_spectrum

from gatewise.errors import ArgumentError


@pytest.mark.parametrize(
    ("mu", "depth", "n"), [(0.5, 2, 5), (0.5, 6, 30), (0.3, 1, 4), (1.0, 3, 7), (0.0, 4, 3)]
)
def test_the_ideal_spectrum_is_that_of_the_matrix_of_equation_5(mu: float, depth: int, n: int):
    kernel = torch.full((n, n), mu ** (depth - 1), dtype=torch.float64).fill_diagonal_(1.0)
    ideal = ideal_spectrum(n, mu=mu, depth=depth)
    torch.testing.assert_close(
        ideal.eigenvalues, torch.linalg.eigvalsh(kernel), rtol=0, atol=1e-13 * n
    )


@pytest.mark.parametrize("wrong", [{"n": 0}, {"depth": 0}, {"mu": 1.5}, {"mu": -0.1}])
def test_an_impossible_ideal_is_refused(wrong: dict):
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        ideal_spectrum(**({"n": 3, "mu": 0.5, "depth": 2} | wrong))
