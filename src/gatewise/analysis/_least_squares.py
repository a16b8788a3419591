"""The least-squares solution of least length, without a matrix: by Fourier transform, or by conjugate gradients."""

from typing import Any

import torch
from torch import Tensor

from gatewise.analysis._conv_operator import KnownResponses, respond
from gatewise.errors import ArgumentError

ILL = 1e-8  # squared condition beyond which a frequency is solved by singular values instead of the normal equations


def conjugate_gradients(known: KnownResponses, tolerance: float, most: int) -> tuple[Tensor, int]:
    """The solution of least length for every sample at once, and the iterations of the slowest.

    On the normal equations from zero, so that every iterate lies in the span of the shifted filters.
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
    raise ArgumentError(
        "reconstruct: conjugate gradients did not reach the tolerance",
        got=f"{share:.2g} after {most} iterations",
        allowed=f"{tolerance:.2g}",
        fix="a larger tolerance or most_iterations: the filters' shifts are nearly dependent",
    )


def solves_by_fft(conv: Any, x: Tensor, response: Tensor) -> bool:
    """Whether the convolution is the same at every position: circular, stride 1, ``response`` of the input's size."""
    plain = conv.padding_mode == "circular" and conv.groups == 1 and set(conv.stride) == {1}
    return plain and response.shape[2:] == x.shape[2:]


def circular_solve(conv: Any, responses: Tensor) -> Tensor:
    """The solution of least length for a circular convolution, frequency by frequency."""
    size = responses.shape[2:]
    dims = tuple(range(-len(size), 0))
    impulses = torch.zeros(conv.in_channels, conv.in_channels, *size, dtype=responses.dtype)
    impulses.flatten(2)[:, :, 0] = torch.eye(conv.in_channels, dtype=responses.dtype)
    transfer = torch.fft.rfftn(respond(conv, impulses), dim=dims)  # (C, K, *frequencies)
    wanted = torch.fft.rfftn(responses, dim=dims)  # (n, K, *frequencies)
    frequencies = transfer.shape[2:]
    matrices = transfer.flatten(2).permute(2, 1, 0)  # (F, K, C)
    # A direction that only the rounding of the weights sees is not seen: a filter without mean has a mean of 1e-9.
    rounding = conv.weight[0].numel() * torch.finfo(conv.weight.dtype).eps
    solved = _solve(matrices, wanted.flatten(2).permute(2, 1, 0), rounding)  # (F, C, n)
    spectrum = solved.permute(2, 1, 0).reshape(len(responses), conv.in_channels, *frequencies)
    return torch.fft.irfftn(spectrum, s=size, dim=dims)


def _solve(matrices: Tensor, values: Tensor, rounding: float) -> Tensor:
    """The pseudo-inverses of (F, K, C) times (F, K, n); singular values below ``rounding`` of the largest are zero.

    The largest of all frequencies: what is zero is so relative to the whole operator.
    """
    wide = matrices.shape[1] < matrices.shape[2]
    gram = matrices @ matrices.mH if wide else matrices.mH @ matrices
    eigenvalues = torch.linalg.eigvalsh(gram)
    largest = float(eigenvalues[:, -1].max())
    well = (eigenvalues[:, 0] > ILL * eigenvalues[:, -1]) & (eigenvalues[:, 0] > largest * rounding**2)
    safe = torch.where(well[:, None, None], gram, torch.eye(gram.shape[-1], dtype=gram.dtype))
    by_normal = (
        matrices.mH @ torch.linalg.solve(safe, values) if wide else torch.linalg.solve(safe, matrices.mH @ values)
    )
    if bool(well.all()):
        return by_normal
    by_singular_values = torch.linalg.pinv(matrices[~well], atol=largest**0.5 * rounding, rtol=0.0) @ values[~well]
    return by_normal.index_put((~well,), by_singular_values)


def _square(values: Tensor) -> Tensor:
    """The squared length of each sample, shaped to multiply it."""
    return values.flatten(1).square().sum(1).reshape(-1, *[1] * (values.dim() - 1))
