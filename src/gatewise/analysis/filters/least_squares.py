"""The shortest least-squares solution without a matrix, by conjugate gradients."""

import torch
from torch import Tensor

from gatewise.analysis.filters.conv_operator import KnownResponses
from gatewise.errors import Limitation, NotApplicableError


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


def _square(values: Tensor) -> Tensor:
    """The squared length of each sample, in a shape that multiplies the sample."""
    return values.flatten(1).square().sum(1).reshape(-1, *[1] * (values.dim() - 1))
