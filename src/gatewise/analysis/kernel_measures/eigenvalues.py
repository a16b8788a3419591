"""The eigenvalues of a kernel, and their cumulative curve."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gatewise.analysis.kernel_measures.kernel_matrix import check_kernel, check_semidefinite
from gatewise.analysis.record import AnalysisResult, new_axes
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
