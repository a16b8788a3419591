"""How well a kernel's large directions agree with the labels.

Nu = y' H^-1 y, once or along a training.
"""

from dataclasses import dataclass
from html import escape
from typing import Any

import torch
from torch import Tensor

from gatewise.analysis.kernel_measures.kernel_matrix import check_kernel, check_semidefinite
from gatewise.errors import ArgumentError, Limitation, NotApplicableError


@dataclass(frozen=True, eq=False)
class Alignment:
    """nu = sum_i energy_i / eigenvalue_i.

    Smaller means that the labels lie along the kernel's large directions.
    """

    nu: float
    eigenvalues: (
        Tensor  # (n,) ascending, of the kernel that was inverted: normalised and with its ridge
    )
    energy: Tensor  # (n,) squared length of the labels along each eigenvector
    normalised: bool
    ridge: float | None

    @property
    def condition(self) -> float:
        """Of the kernel that was inverted."""
        return float(self.eigenvalues[-1] / self.eigenvalues[0])

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file."""
        return {
            "nu": self.nu,
            "condition": self.condition,
            "normalised": self.normalised,
            "ridge": self.ridge,
            "eigenvalues": self.eigenvalues.tolist(),
            "energy": self.energy.tolist(),
        }

    def plot(self, axes: Any = None, **line: Any) -> Any:
        """Draw which share of the labels lies in the k largest directions.

        Return matplotlib's axes.
        """
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(figsize=(5, 3.6), layout="constrained").subplots()
        share = self.energy.flip(0).cumsum(0) / self.energy.sum()
        axes.plot(range(1, len(share) + 1), share.tolist(), **line)
        axes.set(xlabel="eigenvectors, largest first", ylabel="share of the labels", ylim=(0, 1.02))
        return axes

    def __float__(self) -> float:
        return self.nu

    def __repr__(self) -> str:
        ridge = "" if self.ridge is None else f", ridge={self.ridge:g}"
        hat = "normalised" if self.normalised else "as given"
        return f"Alignment(nu={self.nu:.6g}, kernel {hat}{ridge}, condition={self.condition:.4g})"

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code>"


def alignment(
    kernel: Tensor, y: Tensor, *, normalise: bool = False, ridge: float | None = None
) -> Alignment:
    """``nu = y' H^-1 y`` for a ``kernel`` H (n, n) and labels ``y`` (n,), or (n, k) whose columns are summed over.

    ``normalise`` divides H by its trace first (the hat of the paper), which multiplies nu by that trace. ``ridge`` adds
    that share of H's mean eigenvalue to its diagonal. A kernel that its own dtype's rounding leaves singular has no
    inverse: without a ridge that is an error, never a huge number. Computed in float64.
    """
    matrix, slack = check_kernel("alignment", kernel)
    labels = _check_labels(y, matrix)
    if ridge is not None and not 0 < ridge < float("inf"):
        raise ArgumentError(
            "ridge must be a positive share of the mean eigenvalue", got=ridge, fix="None for none"
        )
    eigenvalues, vectors = torch.linalg.eigh(matrix)
    eigenvalues = check_semidefinite("alignment", eigenvalues, slack)
    total = float(eigenvalues.sum())
    if total == 0:
        raise ArgumentError(
            "alignment: the kernel is zero", fix="look at the network that it comes from"
        )
    if normalise:
        eigenvalues = eigenvalues / total
    if ridge is not None:
        eigenvalues = eigenvalues + ridge * eigenvalues.mean()
    _check_invertible(eigenvalues, slack)
    energy = (vectors.T @ labels).square().sum(1)
    return Alignment(
        float((energy / eigenvalues).sum()), eigenvalues.cpu(), energy.cpu(), normalise, ridge
    )


def _check_labels(y: Tensor, matrix: Tensor) -> Tensor:
    """The labels as columns (n, k) in float64."""
    if (
        not isinstance(y, Tensor)
        or y.is_complex()
        or y.ndim not in (1, 2)
        or len(y) != len(matrix)
        or not y.numel()
    ):
        got = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
        n = len(matrix)
        raise ArgumentError(
            "y must hold one real label for each row of the kernel",
            got=got,
            allowed=f"({n},) or ({n}, k)",
        )
    labels = y.detach().to(matrix)
    if not bool(labels.isfinite().all()):
        raise ArgumentError("y holds NaN or infinity")
    return labels[:, None] if y.ndim == 1 else labels


def _check_invertible(eigenvalues: Tensor, slack: float) -> None:
    smallest, largest = float(eigenvalues[0]), float(eigenvalues[-1])
    if smallest <= slack * largest:
        raise NotApplicableError(
            Limitation.SINGULAR_KERNEL,
            "alignment: the kernel is singular, so y' H^-1 y says nothing",
            got=f"eigenvalues {smallest:.3g} to {largest:.3g}",
            allowed=f"a smallest one above {slack * largest:.3g}, which is rounding",
            fix="a kernel in float64, inputs that differ, or ridge=1e-6",
        )
