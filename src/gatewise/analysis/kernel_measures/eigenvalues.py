"""The eigenvalues of a kernel, their cumulative curve, and the ideal curve of random gates."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gatewise.analysis.kernel_measures.kernel_matrix import check_kernel, check_semidefinite
from gatewise.analysis.record import AnalysisResult, new_axes
from gatewise.checks import check_count, check_number
from gatewise.errors import ArgumentError


@dataclass(frozen=True, eq=False)
class Spectrum(AnalysisResult):
    """The eigenvalues of a kernel; the result of :func:`spectrum`.

    Attributes:
        eigenvalues: (n,), ascending, in float64.
        rounding: eigenvalues below this share of the largest cannot be distinguished from zero.
    """

    eigenvalues: Tensor
    rounding: float

    _omitted = ("rounding",)
    _properties = ("condition", "effective_rank")

    def curve(self) -> Tensor:
        """The cumulative sum of the ascending eigenvalues (n,); the paper calls it the e.c.d.f.

        The straighter it is, the better the kernel is conditioned. A jump at the end means one
        dominant direction.
        """
        return self.eigenvalues.cumsum(0)

    @property
    def condition(self) -> float:
        """The largest eigenvalue over the smallest; infinite if the smallest may be zero."""
        smallest = float(self.eigenvalues[0])
        largest = float(self.eigenvalues[-1])
        if smallest > self.rounding * largest:
            return largest / smallest
        return float("inf")

    @property
    def effective_rank(self) -> float:
        """The exponential of the entropy of the eigenvalues' shares (Roy and Vetterli, 2007).

        It is between 1 and n, and 0 for a kernel of zeros.
        """
        total = self.eigenvalues.sum()
        if not total > 0:
            return 0.0
        return float(torch.special.entr(self.eigenvalues / total).sum().exp())

    def normalised(self) -> "Spectrum":
        """The spectrum of the kernel divided by its largest eigenvalue."""
        if not self.eigenvalues[-1] > 0:
            raise ArgumentError(
                "the kernel is zero and cannot be normalised", fix="check the network's weights"
            )
        return Spectrum(self.eigenvalues / self.eigenvalues[-1], self.rounding)

    def ideal(self, *, mu: float, depth: int) -> "Spectrum":
        """Return :func:`ideal_spectrum` of as many eigenvalues, scaled to the same trace."""
        ideal = ideal_spectrum(len(self.eigenvalues), mu=mu, depth=depth)
        scale = self.eigenvalues.sum() / len(self.eigenvalues)
        return Spectrum(ideal.eigenvalues * scale, ideal.rounding)

    def plot(self, axes: Any = None, **line: Any) -> Any:
        """Draw the cumulative curve and return the axes; ``line`` are options of ``axes.plot``."""
        axes = new_axes((5, 3.6)) if axes is None else axes
        axes.plot(range(1, len(self.eigenvalues) + 1), self.curve().tolist(), **line)
        axes.set(xlabel="eigenvalues, smallest first", ylabel="cumulative sum")
        return axes

    def __str__(self) -> str:
        facts = f"condition={self.condition:.4g}, effective_rank={self.effective_rank:.4g}"
        return f"Spectrum(n={len(self.eigenvalues)}, {facts})"


def spectrum(kernel: Tensor) -> Spectrum:
    """Compute the spectrum of a positive semidefinite ``kernel`` (n, n), in float64.

    Eigenvalues that rounding in the kernel's dtype made negative are set to zero. More negative
    ones are an error.
    """
    matrix, slack = check_kernel("spectrum", kernel)
    eigenvalues = check_semidefinite("spectrum", torch.linalg.eigvalsh(matrix), slack)
    return Spectrum(eigenvalues.cpu(), slack)


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
    check_number("ideal_spectrum", "mu", mu, least=0)
    if not 0 <= mu <= 1:
        raise ArgumentError("mu must be a probability", got=mu, allowed="0 to 1")
    overlap = float(mu) ** (depth - 1)
    eigenvalues = torch.full((n,), 1 - overlap, dtype=torch.float64)
    eigenvalues[-1] = 1 + (n - 1) * overlap
    return Spectrum(eigenvalues, n * torch.finfo(torch.float64).eps)
