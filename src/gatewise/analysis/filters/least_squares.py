"""The least-squares solution of least length, without a matrix.

By Fourier transform, or by conjugate gradients.
"""

from typing import Any

import torch
from torch import Tensor

from gatewise.analysis.filters.conv_operator import KnownResponses
from gatewise.errors import Limitation, NotApplicableError

# squared condition beyond which a frequency is solved by singular values instead of the normal
# equations
ILL = 1e-8


def conjugate_gradients(known: KnownResponses, tolerance: float, most: int) -> tuple[Tensor, int]:
    """The solution of least length for every sample at once, and the iterations of the slowest.

    On the normal equations from zero, so that every iterate lies in the span of the shifted
    filters.
    """
    residual = known.values.clone()
    gradient = known.transpose(residual)
    direction, x = gradient.clone(), torch.zeros_like(gradient)
    size = _square(gradient)
    goal = size * tolerance**2
    for iteration in range(most + 1):
        active = size > goal
        if not bool(active.any()):
            return x, iteration
        image = known.apply(direction)
        step = torch.where(active, size / _square(image).clamp(min=1e-300), 0.0)
        x = x + step * direction
        residual = residual - step * image
        gradient = known.transpose(residual)
        before, size = size, torch.where(active, _square(gradient), size)
        direction = gradient + torch.where(active, size / before.clamp(min=1e-300), 0.0) * direction
    share = float((size / goal.clamp(min=1e-300)).max()) ** 0.5 * tolerance
    raise NotApplicableError(
        Limitation.NOT_CONVERGED,
        "reconstruct: conjugate gradients did not reach the tolerance",
        got=f"{share:.2g} after {most} iterations",
        allowed=f"{tolerance:.2g}",
        fix="a larger tolerance or most_iterations: the filters' shifts are nearly dependent",
    )


def solves_by_fft(conv: Any, x: Tensor) -> bool:
    """Whether the convolution is the same at every position.

    Circular, stride 1, responses of the input's size.
    """
    if conv.padding_mode != "circular" or conv.groups != 1 or set(conv.stride) != {1}:
        return False
    # As torch keeps them, the last dimension first, both sides of each.
    padded = [
        sum(conv._reversed_padding_repeated_twice[2 * i : 2 * i + 2]) for i in range(x.dim() - 2)
    ][::-1]
    reach = [step * (size - 1) for step, size in zip(conv.dilation, conv.kernel_size, strict=True)]
    return padded == reach


def circular_solve(conv: Any, x: Tensor) -> Tensor:
    """The input of least length with the responses of ``x``, frequency by frequency.

    A response at a frequency is the input's times the filter's conjugate, and a factor of length 1
    for the padding, which is the same for all filters: known responses with it and without are the
    same knowledge, so it is left out.
    """
    size, weight = x.shape[2:], conv.weight.detach()
    dims = tuple(range(-len(size), 0))
    filters = torch.fft.rfftn(_fitted(weight.double(), conv.dilation, size), s=size, dim=dims)
    inputs = torch.fft.rfftn(x, dim=dims)
    matrices = filters.flatten(2).permute(2, 0, 1).conj()  # (F, K, C)
    responses = matrices @ inputs.flatten(2).permute(2, 1, 0)  # (F, K, n)
    solved = _solve(matrices, responses, _rounding(weight))  # (F, C, n)
    return torch.fft.irfftn(solved.permute(2, 1, 0).reshape(inputs.shape), s=size, dim=dims)


def _rounding(weight: Tensor) -> float:
    """The share of the largest singular value below which one is rounding.

    That of the sums here, or of the weights.

    A direction that only the weights' rounding sees is not seen: a filter without mean has a mean
    of 1e-9 in float32. Rounding errors and weights add up alike, so that their ratio does not grow
    with the filter. Half precision is cut where float32 is: its weights are too coarse to have a
    direction by rounding alone that could be told from others.
    """
    sums = weight[0].numel() * torch.finfo(torch.float64).eps
    return sums if weight.dtype == torch.float64 else max(sums, 8 * torch.finfo(torch.float32).eps)


def _fitted(weight: Tensor, dilation: tuple[int, ...], size: torch.Size) -> Tensor:
    """Filters (K, C, *kernel) with their dilation written out and, where they are larger than the input, wrapped."""
    for axis, (step, length) in enumerate(zip(dilation, size, strict=True), 2):
        if step > 1 or weight.shape[axis] > length:
            places = torch.arange(weight.shape[axis]) * step % length
            wide = weight.new_zeros((*weight.shape[:axis], length, *weight.shape[axis + 1 :]))
            weight = wide.index_add_(axis, places, weight)
    return weight


def _solve(matrices: Tensor, values: Tensor, rounding: float) -> Tensor:
    """The pseudo-inverses of (F, K, C) times (F, K, n).

    Singular values below ``rounding`` of the largest are zero.

    The largest of all frequencies: what is zero is so relative to the whole operator.
    """
    wide = matrices.shape[1] < matrices.shape[2]
    gram = matrices @ matrices.mH if wide else matrices.mH @ matrices
    inverse = _safe_inverse(gram, rounding)
    if inverse is None:
        return _solve_with_care(matrices, values, gram, rounding)
    return matrices.mH @ (inverse @ values) if wide else inverse @ (matrices.mH @ values)


def _safe_inverse(gram: Tensor, rounding: float) -> Tensor | None:
    """The inverses of all (F, m, m), if they show by their own size that no eigenvalue is too small."""
    inverse = torch.linalg.inv_ex(gram)[0]
    least, most = (1 / _longest(inverse), _longest(gram))  # of no eigenvalue less, and of none more
    return inverse if least > max(ILL, rounding**2) * most else None


def _longest(matrices: Tensor) -> float:
    """The largest Frobenius norm of complex (F, m, m)."""
    return float(torch.view_as_real(matrices.resolve_conj()).flatten(1).norm(dim=1).max())


def _solve_with_care(matrices: Tensor, values: Tensor, gram: Tensor, rounding: float) -> Tensor:
    """The same where some frequencies are, or may be, ill-conditioned: those by singular values."""
    wide = matrices.shape[1] < matrices.shape[2]
    eigenvalues = torch.linalg.eigvalsh(gram)
    largest = float(eigenvalues[:, -1].max())
    well = (eigenvalues[:, 0] > ILL * eigenvalues[:, -1]) & (
        eigenvalues[:, 0] > largest * rounding**2
    )
    safe = torch.where(well[:, None, None], gram, torch.eye(gram.shape[-1], dtype=gram.dtype))
    by_normal = (
        matrices.mH @ torch.linalg.solve(safe, values)
        if wide
        else torch.linalg.solve(safe, matrices.mH @ values)
    )
    if bool(well.all()):
        return by_normal
    by_singular_values = (
        torch.linalg.pinv(matrices[~well], atol=largest**0.5 * rounding, rtol=0.0) @ values[~well]
    )
    return by_normal.index_put((~well,), by_singular_values)


def _square(values: Tensor) -> Tensor:
    """The squared length of each sample, shaped to multiply it."""
    return values.flatten(1).square().sum(1).reshape(-1, *[1] * (values.dim() - 1))
