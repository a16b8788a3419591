"""How well conditioned a kernel is.

Its eigenvalues, their cumulative curve, and the ideal curve of random gates.
"""

from dataclasses import dataclass
from html import escape
from typing import Any

import torch
from torch import Tensor

from gatewise.analysis.kernel_measures.kernel_matrix import check_kernel, check_semidefinite
from gatewise.errors import ArgumentError


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The eigenvalues of a kernel, ascending, in float64. Made by :func:`spectrum`."""

    eigenvalues: Tensor  # (n,)
    rounding: float  # eigenvalues below this share of the largest are not told from zero

    def curve(self) -> Tensor:
        """The cumulative sum of the ascending eigenvalues (n,): what the paper calls the e.c.d.f.

        The straighter it is, the better the kernel is conditioned; a jump at the end is one
        dominant direction.
        """
        return self.eigenvalues.cumsum(0)

    @property
    def condition(self) -> float:
        """The largest eigenvalue over the smallest.

        Infinite where the smallest is not told from zero.
        """
        smallest, largest = float(self.eigenvalues[0]), float(self.eigenvalues[-1])
        return largest / smallest if smallest > self.rounding * largest else float("inf")

    @property
    def effective_rank(self) -> float:
        """The exponential of the entropy of the eigenvalues' shares (Roy and Vetterli, 2007).

        1 to n, 0 for zero.
        """
        total = self.eigenvalues.sum()
        if not total > 0:
            return 0.0
        return float(torch.special.entr(self.eigenvalues / total).sum().exp())

    def normalised(self) -> "Spectrum":
        """The spectrum of the kernel divided by its largest eigenvalue."""
        if not self.eigenvalues[-1] > 0:
            raise ArgumentError(
                "the kernel is zero, so it has no largest direction", fix="look at the network"
            )
        return Spectrum(self.eigenvalues / self.eigenvalues[-1], self.rounding)

    def ideal(self, *, mu: float, depth: int) -> "Spectrum":
        """:func:`ideal_spectrum` of as many eigenvalues, scaled to the same trace."""
        ideal = ideal_spectrum(len(self.eigenvalues), mu=mu, depth=depth)
        return Spectrum(
            ideal.eigenvalues * (self.eigenvalues.sum() / len(self.eigenvalues)), ideal.rounding
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file."""
        return {
            "eigenvalues": self.eigenvalues.tolist(),
            "condition": self.condition,
            "effective_rank": self.effective_rank,
        }

    def plot(self, axes: Any = None, **line: Any) -> Any:
        """Draw the cumulative curve on matplotlib's ``axes`` (a new figure without them) and return the axes."""
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(figsize=(5, 3.6), layout="constrained").subplots()
        axes.plot(range(1, len(self.eigenvalues) + 1), self.curve().tolist(), **line)
        axes.set(xlabel="eigenvalues, smallest first", ylabel="cumulative sum")
        return axes

    def __repr__(self) -> str:
        facts = f"condition={self.condition:.4g}, effective_rank={self.effective_rank:.4g}"
        return f"Spectrum(n={len(self.eigenvalues)}, {facts})"

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code>"


def spectrum(kernel: Tensor) -> Spectrum:
    """The spectrum of a symmetric, positive semidefinite ``kernel`` (n, n), computed in float64.

    Eigenvalues that rounding in the kernel's own dtype makes negative are zero; more negative ones
    are an error.
    """
    matrix, slack = check_kernel("spectrum", kernel)
    found = torch.linalg.eigvalsh(matrix)
    return Spectrum(check_semidefinite("spectrum", found, slack).cpu(), slack)


def ideal_spectrum(n: int, *, mu: float, depth: int) -> Spectrum:
    """Equation 5 of the paper.

    N equal inputs through infinitely wide random gates, each open with probability ``mu``.

    The kernel over its depth has ones on the diagonal and mu^(d-1) elsewhere, so n - 1 eigenvalues
    are 1 - mu^(d-1) and one is 1 + (n-1) mu^(d-1).
    """
    if n < 1:
        raise ArgumentError("n must be a number of inputs", got=n, allowed="at least 1")
    if depth < 1:
        raise ArgumentError(
            "depth must be a number of weight layers", got=depth, allowed="at least 1"
        )
    if not 0 <= mu <= 1:
        raise ArgumentError("mu must be a probability", got=mu, allowed="0 to 1")
    overlap = float(mu) ** (depth - 1)
    eigenvalues = torch.full((n,), 1 - overlap, dtype=torch.float64)
    eigenvalues[-1] = 1 + (n - 1) * overlap
    return Spectrum(eigenvalues, n * torch.finfo(torch.float64).eps)
