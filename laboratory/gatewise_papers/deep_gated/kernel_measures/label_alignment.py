"""How well a kernel's large eigenvectors agree with the labels: nu = y' H^-1 y."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gatewise.analysis import AnalysisResult
from gatewise.analysis.kernel_measures import check_kernel, check_semidefinite
from gatewise.analysis.record import new_axes
from gatewise.errors import ArgumentError, Limitation, NotApplicableError


@dataclass(frozen=True, eq=False)
class Alignment(AnalysisResult):
    """nu = sum_i energy_i / eigenvalue_i.

    A smaller nu means that the labels point along eigenvectors with large eigenvalues.

    Attributes:
        nu: the value.
        eigenvalues: (n,), ascending, of the kernel that was inverted: normalised and with ridge.
        energy: (n,), the squared length of the labels along each eigenvector.
        normalised: whether the kernel was divided by its trace.
        ridge: the ridge, as a share of the mean eigenvalue, or None.
    """

    nu: float
    eigenvalues: Tensor
    energy: Tensor
    normalised: bool
    ridge: float | None

    @property
    def condition(self) -> float:
        """The condition number of the kernel that was inverted."""
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
        """Draw the share of the labels in the span of the k largest eigenvectors, by k.

        ``line`` are options of ``axes.plot``. Returns the axes.
        """
        axes = new_axes((5, 3.6)) if axes is None else axes
        share = self.energy.flip(0).cumsum(0) / self.energy.sum()
        axes.plot(range(1, len(share) + 1), share.tolist(), **line)
        axes.set(xlabel="eigenvectors, largest first", ylabel="share of the labels", ylim=(0, 1.02))
        return axes

    def __float__(self) -> float:
        return self.nu

    def __str__(self) -> str:
        ridge = "" if self.ridge is None else f", ridge={self.ridge:g}"
        scale = "normalised" if self.normalised else "not normalised"
        return f"Alignment(nu={self.nu:.6g}, kernel {scale}{ridge}, condition={self.condition:.4g})"


def alignment(
    kernel: Tensor,
    y: Tensor,
    *,
    normalise: bool = False,
    ridge: float | None = None,
) -> Alignment:
    """Compute ``nu = y' H^-1 y``, in float64.

    Args:
        kernel: the kernel H, (n, n).
        y: the labels, (n,), or (n, k) to sum over k columns.
        normalise: whether to divide H by its trace first (the hat of the paper). This multiplies
            nu by the trace.
        ridge: share of H's mean eigenvalue that is added to its diagonal, or None.

    Raises:
        NotApplicableError: if H is singular up to the rounding of its dtype. The result would be
            a huge number without meaning.
        ArgumentError: if another argument is wrong.
    """
    matrix, slack = check_kernel("alignment", kernel)
    labels = _check_labels(y, matrix)
    if ridge is not None and not 0 < ridge < float("inf"):
        raise ArgumentError(
            "ridge must be a positive share of the mean eigenvalue",
            got=ridge,
            fix="ridge=None for no ridge",
        )
    eigenvalues, vectors = torch.linalg.eigh(matrix)
    eigenvalues = check_semidefinite("alignment", eigenvalues, slack)
    total = float(eigenvalues.sum())
    if total == 0:
        raise ArgumentError(
            "alignment: the kernel is zero", fix="check the weights and inputs of the network"
        )
    if normalise:
        eigenvalues = eigenvalues / total
    if ridge is not None:
        eigenvalues = eigenvalues + ridge * eigenvalues.mean()
    _check_invertible(eigenvalues, slack)
    energy = (vectors.T @ labels).square().sum(1)
    nu = float((energy / eigenvalues).sum())
    return Alignment(nu, eigenvalues.cpu(), energy.cpu(), normalise, ridge)


def _check_labels(y: Tensor, matrix: Tensor) -> Tensor:
    """Return the labels as columns (n, k) in float64."""
    n = len(matrix)
    is_tensor = isinstance(y, Tensor)
    fits = is_tensor and not y.is_complex() and y.ndim in (1, 2) and len(y) == n and y.numel()
    if not fits:
        raise ArgumentError(
            "y must hold one real label for each row of the kernel",
            got=tuple(y.shape) if is_tensor else type(y).__name__,
            allowed=f"({n},) or ({n}, k)",
        )
    labels = y.detach().to(matrix)
    if not bool(labels.isfinite().all()):
        raise ArgumentError("y holds NaN or infinity")
    return labels[:, None] if y.ndim == 1 else labels


def _check_invertible(eigenvalues: Tensor, slack: float) -> None:
    smallest = float(eigenvalues[0])
    largest = float(eigenvalues[-1])
    if smallest <= slack * largest:
        raise NotApplicableError(
            Limitation.SINGULAR_KERNEL,
            "alignment: the kernel is singular, so y' H^-1 y is undefined",
            got=f"eigenvalues {smallest:.3g} to {largest:.3g}",
            allowed=f"a smallest eigenvalue above the rounding error {slack * largest:.3g}",
            fix="a kernel in float64, inputs that differ, or ridge=1e-6",
        )
