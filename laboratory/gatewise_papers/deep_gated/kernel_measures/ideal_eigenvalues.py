"""The eigenvalues of the kernel of infinitely wide random gates."""

import torch

from gatewise.analysis import Spectrum
from gatewise.checks import check_count, check_number


def ideal_spectrum(n: int, *, mu: float, depth: int) -> Spectrum:
    """The spectrum of n equal inputs through infinitely wide random gates: equation 5 of the paper.

    The kernel divided by its depth has ones on the diagonal and mu^(d-1) elsewhere. So n - 1
    eigenvalues are 1 - mu^(d-1), and one is 1 + (n-1) mu^(d-1).

    Args:
        n: the number of inputs.
        mu: the probability that a gate is open.
        depth: the number of weight layers d.
    """
    check_count("ideal_spectrum", "n", n, least=1)
    check_count("ideal_spectrum", "depth", depth, least=1)
    check_number("ideal_spectrum", "mu", mu, least=0, most=1)
    overlap = float(mu) ** (depth - 1)
    eigenvalues = torch.full((n,), 1 - overlap, dtype=torch.float64)
    eigenvalues[-1] = 1 + (n - 1) * overlap
    return Spectrum(eigenvalues, n * torch.finfo(torch.float64).eps)
