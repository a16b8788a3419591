"""What a kernel matrix must be, checked in one place."""

import torch
from torch import Tensor

from gatewise.errors import ArgumentError


def check_kernel(what: str, kernel: Tensor) -> tuple[Tensor, float]:
    """``kernel`` (n, n) in float64, exactly symmetric, and the relative rounding that its dtype allows it.

    A kernel is a sum of products, so its entries carry rounding of about n units of its dtype relative to the largest.
    """
    if not isinstance(kernel, Tensor):
        raise ArgumentError(f"{what} takes a kernel matrix as a tensor", got=type(kernel).__name__)
    if kernel.ndim != 2 or kernel.shape[0] != kernel.shape[1] or not kernel.shape[0]:
        shape = tuple(kernel.shape)
        raise ArgumentError(
            f"{what} takes a square kernel matrix", got=shape, allowed="(n, n), n at least 1"
        )
    if not kernel.is_floating_point():
        raise ArgumentError(
            f"{what} takes a real floating-point kernel", got=kernel.dtype, fix="kernel.double()"
        )
    wide = kernel.detach().double()
    if not bool(wide.isfinite().all()):
        raise ArgumentError(
            f"{what}: the kernel holds NaN or infinity",
            fix="look at the network that it comes from",
        )
    slack = len(wide) * torch.finfo(kernel.dtype).eps
    skew = float((wide - wide.T).abs().max())
    if skew > slack * float(wide.abs().max()):
        raise ArgumentError(
            f"{what}: the kernel is not symmetric", got=f"entries differ by {skew:.3g}"
        )
    return (wide + wide.T) / 2, slack


def check_semidefinite(what: str, eigenvalues: Tensor, slack: float) -> Tensor:
    """The eigenvalues (n,), ascending.

    Those that rounding made negative are zero, and others that are, an error.
    """
    smallest, floor = float(eigenvalues[0]), -slack * float(eigenvalues.abs().max())
    if smallest < floor:
        raise ArgumentError(
            f"{what}: the kernel has a negative eigenvalue, so it is no Gram matrix",
            got=f"{smallest:.6g}",
            allowed=f"at least {floor:.3g}, which is rounding",
        )
    return eigenvalues.clamp(min=0)
