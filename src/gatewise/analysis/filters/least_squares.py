"""The shortest least-squares solution without a matrix: by FFT, or by conjugate gradients."""

from typing import Any

import torch
from torch import Tensor

from gatewise.analysis.filters.conv_operator import KnownResponses
from gatewise.errors import Limitation, NotApplicableError

# A frequency whose smallest eigenvalue is below this share of its largest is solved by singular
# values. The normal equations would lose half of the digits of float64.
ILL = 1e-8


def conjugate_gradients(known: KnownResponses, tolerance: float, most: int) -> tuple[Tensor, int]:
    """Solve for the shortest inputs with the known responses, all samples at once.

    Conjugate gradients on the normal equations start from zero, so that every iterate is in the
    span of the shifted filters.

    Args:
        known: the linear map and its known values.
        tolerance: at which to stop, relative to the first residual.
        most: the largest number of iterations.

    Returns:
        The inputs, and the number of iterations of the slowest sample.

    Raises:
        ArgumentError: if the tolerance is not reached.
    """
    residual = known.values.clone()
    gradient = known.transpose(residual)
    direction = gradient.clone()
    x = torch.zeros_like(gradient)
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
        before = size
        size = torch.where(active, _square(gradient), size)
        share = torch.where(active, size / before.clamp(min=1e-300), 0.0)
        direction = gradient + share * direction
    reached = float((size / goal.clamp(min=1e-300)).max()) ** 0.5 * tolerance
    raise NotApplicableError(
        Limitation.NOT_CONVERGED,
        "reconstruct: conjugate gradients did not reach the tolerance",
        got=f"{reached:.2g} after {most} iterations",
        allowed=f"{tolerance:.2g}",
        fix="a larger tolerance or most_iterations: the shifted filters are nearly dependent",
    )


def solves_by_fft(conv: Any, x: Tensor) -> bool:
    """Whether the convolution is circular, of stride 1, and keeps the size of the input."""
    if conv.padding_mode != "circular" or conv.groups != 1 or set(conv.stride) != {1}:
        return False
    # Torch stores the padding of both sides, with the last dimension first.
    padding = conv._reversed_padding_repeated_twice
    padded = [sum(padding[i : i + 2]) for i in range(0, len(padding), 2)]
    spans = [step * (size - 1) for step, size in zip(conv.dilation, conv.kernel_size, strict=True)]
    return padded[::-1] == spans


def circular_solve(conv: Any, x: Tensor) -> Tensor:
    """The shortest input with the responses of ``x``, frequency by frequency.

    A response at a frequency is the input times the conjugate of the filter, and a factor of
    length 1 from the padding. That factor is the same for all filters and does not change the
    solution, so it is omitted.
    """
    size = x.shape[2:]
    weight = conv.weight.detach()
    dims = tuple(range(-len(size), 0))
    filters = torch.fft.rfftn(_wrapped(weight.double(), conv.dilation, size), s=size, dim=dims)
    inputs = torch.fft.rfftn(x, dim=dims)
    matrices = filters.flatten(2).permute(2, 0, 1).conj()  # (F, K, C)
    responses = matrices @ inputs.flatten(2).permute(2, 1, 0)  # (F, K, n)
    solved = _solve(matrices, responses, _rounding(weight))  # (F, C, n)
    return torch.fft.irfftn(solved.permute(2, 1, 0).reshape(inputs.shape), s=size, dim=dims)


def _rounding(weight: Tensor) -> float:
    """The share of the largest singular value below which a singular value is rounding.

    The rounding is that of the sums here, or that of the weights. A direction that exists only by
    the rounding of the weights does not count: a filter without mean has a mean of 1e-9 in
    float32. Rounding errors and weights add up in the same way, so their ratio does not grow with
    the filter. Weights in half precision have the bound of float32: they are too coarse to
    recognise directions that exist only by rounding.
    """
    sums = weight[0].numel() * torch.finfo(torch.float64).eps
    if weight.dtype == torch.float64:
        return sums
    return max(sums, 8 * torch.finfo(torch.float32).eps)


def _wrapped(weight: Tensor, dilation: tuple[int, ...], size: torch.Size) -> Tensor:
    """Filters (K, C, *kernel) with dilation applied, wrapped where larger than the input."""
    for axis, (step, length) in enumerate(zip(dilation, size, strict=True), 2):
        if step > 1 or weight.shape[axis] > length:
            places = torch.arange(weight.shape[axis]) * step % length
            wide = weight.new_zeros((*weight.shape[:axis], length, *weight.shape[axis + 1 :]))
            weight = wide.index_add_(axis, places, weight)
    return weight


def _solve(matrices: Tensor, values: Tensor, rounding: float) -> Tensor:
    """The pseudo-inverses of (F, K, C) times (F, K, n).

    Singular values below the share ``rounding`` of the largest of all frequencies are zero.
    """
    wide = matrices.shape[1] < matrices.shape[2]
    gram = matrices @ matrices.mH if wide else matrices.mH @ matrices
    inverse = _safe_inverse(gram, rounding)
    if inverse is None:
        return _solve_ill_conditioned(matrices, values, gram, rounding)
    if wide:
        return matrices.mH @ (inverse @ values)
    return inverse @ (matrices.mH @ values)


def _safe_inverse(gram: Tensor, rounding: float) -> Tensor | None:
    """The inverses of all (F, m, m), or None if an eigenvalue may be too small.

    Norms bound the eigenvalues: none is below 1 / |inverse| or above |gram|.
    """
    inverse = torch.linalg.inv_ex(gram)[0]
    is_safe = 1 / _largest_norm(inverse) > max(ILL, rounding**2) * _largest_norm(gram)
    return inverse if is_safe else None


def _largest_norm(matrices: Tensor) -> float:
    """The largest Frobenius norm of complex (F, m, m)."""
    return float(torch.view_as_real(matrices.resolve_conj()).flatten(1).norm(dim=1).max())


def _solve_ill_conditioned(
    matrices: Tensor,
    values: Tensor,
    gram: Tensor,
    rounding: float,
) -> Tensor:
    """The same, with ill-conditioned frequencies solved by singular values."""
    wide = matrices.shape[1] < matrices.shape[2]
    eigenvalues = torch.linalg.eigvalsh(gram)
    largest = float(eigenvalues[:, -1].max())
    smallest = eigenvalues[:, 0]
    well = (smallest > ILL * eigenvalues[:, -1]) & (smallest > largest * rounding**2)
    safe = torch.where(well[:, None, None], gram, torch.eye(gram.shape[-1], dtype=gram.dtype))
    if wide:
        solution = matrices.mH @ torch.linalg.solve(safe, values)
    else:
        solution = torch.linalg.solve(safe, matrices.mH @ values)
    if bool(well.all()):
        return solution
    inverse = torch.linalg.pinv(matrices[~well], atol=largest**0.5 * rounding, rtol=0.0)
    return solution.index_put((~well,), inverse @ values[~well])


def _square(values: Tensor) -> Tensor:
    """The squared length of each sample, in a shape that multiplies the sample."""
    return values.flatten(1).square().sum(1).reshape(-1, *[1] * (values.dim() - 1))
