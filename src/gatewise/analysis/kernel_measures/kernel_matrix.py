"""Checks that a tensor is a kernel matrix."""

import torch
from torch import Tensor

from gatewise.errors import ArgumentError


def check_kernel(what: str, kernel: Tensor) -> tuple[Tensor, float]:
    """Return ``kernel`` (n, n) in float64, exactly symmetric, and its relative rounding error.

    A kernel is a sum of products. So the rounding error of its entries, relative to the largest, is
    about n times the machine epsilon of its dtype.

    Args:
        what: the name of the caller, for messages.
        kernel: the matrix to check.

    Raises:
        ArgumentError: if ``kernel`` is not a finite, symmetric matrix of real numbers.
    """
    if not isinstance(kernel, Tensor):
        raise ArgumentError(f"{what} takes a kernel matrix as a tensor", got=type(kernel).__name__)
    if kernel.ndim != 2 or kernel.shape[0] != kernel.shape[1] or not kernel.shape[0]:
        shape = tuple(kernel.shape)
        raise ArgumentError(
            f"{what} takes a square kernel matrix",
            got=shape,
            allowed="(n, n), n at least 1",
        )
    if not kernel.is_floating_point():
        raise ArgumentError(
            f"{what} takes a real floating-point kernel",
            got=kernel.dtype,
            fix="kernel.double()",
        )
    wide = kernel.detach().double()
    if not bool(wide.isfinite().all()):
        raise ArgumentError(
            f"{what}: the kernel holds NaN or infinity",
            fix="check the weights and inputs of the network",
        )
    slack = len(wide) * torch.finfo(kernel.dtype).eps
    skew = float((wide - wide.T).abs().max())
    if skew > slack * float(wide.abs().max()):
        raise ArgumentError(
            f"{what}: the kernel is not symmetric", got=f"entries differ by {skew:.3g}"
        )
    return (wide + wide.T) / 2, slack


def check_semidefinite(what: str, eigenvalues: Tensor, slack: float) -> Tensor:
    """Return the eigenvalues (n,), those that rounding made negative set to zero.

    Args:
        what: the name of the caller, for messages.
        eigenvalues: all eigenvalues, ascending.
        slack: the relative rounding error of :func:`check_kernel`.

    Raises:
        ArgumentError: if an eigenvalue is more negative than rounding explains.
    """
    smallest = float(eigenvalues[0])
    floor = -slack * float(eigenvalues.abs().max())
    if smallest < floor:
        raise ArgumentError(
            f"{what}: the kernel has a negative eigenvalue, so it is not a Gram matrix",
            got=f"{smallest:.6g}",
            allowed=f"at least {floor:.3g}, the size of rounding errors",
        )
    return eigenvalues.clamp(min=0)
