"""A window of the plane through three inputs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gatewise.errors import ArgumentError, Limitation, NotApplicableError

Extent = float | tuple[float, float, float, float]
FURTHEST = 1e100  # coordinate: areas of windows beyond could not be computed


@dataclass(frozen=True, eq=False)
class Slice:
    """``origin + u axes[0] + v axes[1]`` with orthonormal axes, for ``u`` and ``v`` between ``low`` and ``high``."""

    origin: Tensor  # (*input) float64
    axes: Tensor  # (2, *input)
    low: tuple[float, float]
    high: tuple[float, float]
    marks: Tensor  # (3, 2): where the three inputs are

    def inputs(self, coordinates: Tensor) -> Tensor:
        """The inputs (n, *input) at ``coordinates`` (n, 2)."""
        return self.origin + torch.einsum("nk,k...->n...", coordinates.double(), self.axes)

    @property
    def plane(self) -> Tensor:
        """The input as an affine function of the coordinates: (3, *input)."""
        return torch.cat((self.origin[None], self.axes))

    @property
    def area(self) -> float:
        """Of the window."""
        return (self.high[0] - self.low[0]) * (self.high[1] - self.low[1])

    @property
    def reach(self) -> np.ndarray:
        """The largest size of each coordinate."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def grid(self, steps: int) -> Tensor:
        """Middles of ``steps`` by ``steps`` cells (steps², 2), rows of equal ``v`` one after the other."""
        u, v = (
            low + (high - low) * (torch.arange(steps, dtype=torch.float64) + 0.5) / steps
            for low, high in zip(self.low, self.high, strict=True)
        )
        return torch.stack((u.repeat(steps), v.repeat_interleave(steps)), 1)


def slice_through(three_points: Tensor | Sequence[Tensor], extent: Extent) -> Slice:
    """The plane through three inputs: the first is the origin, the second on the first axis."""
    points = _three(three_points)
    flat = points.flatten(1)
    first, second = flat[1] - flat[0], flat[2] - flat[0]
    length = first.norm()
    unit = first / length
    rest = second - (second @ unit) * unit
    rest = rest - (rest @ unit) * unit  # once more, for digits lost to nearly parallel differences
    height = rest.norm()
    if not length > 0 or not height > 1e-10 * second.norm():
        raise NotApplicableError(
            Limitation.ON_ONE_LINE,
            "partition: three_points must not lie on one line",
            got=f"distances {float(length):.3g} and {float(height):.3g}",
            fix="choose another third input",
        )
    axes = torch.stack((unit, rest / height))
    marks = torch.stack((torch.zeros(2).double(), torch.stack((length, height * 0)), axes @ second))
    low, high = _window(marks, extent)
    return Slice(points[0], axes.reshape(2, *points.shape[1:]), low, high, marks)


def _three(points: Tensor | Sequence[Tensor]) -> Tensor:
    try:
        found = points if isinstance(points, Tensor) else torch.stack(list(points))
    except (TypeError, RuntimeError) as problem:
        allowed = "a tensor (3, *input), or three tensors of one shape"
        raise ArgumentError(
            "partition: three_points are not three inputs", got=points, allowed=allowed
        ) from problem
    if (
        found.dim() < 2
        or len(found) != 3
        or not found.is_floating_point()
        or not found.isfinite().all()
    ):
        got = f"{tuple(found.shape)} of {found.dtype}"
        allowed = "a tensor (3, *input) of finite numbers, or three of them"
        raise ArgumentError(
            "partition: three_points are not three inputs", got=got, allowed=allowed
        )
    return found.detach().double()


def _window(marks: Tensor, extent: Extent) -> tuple[tuple[float, float], tuple[float, float]]:
    if (
        isinstance(extent, int | float)
        and not isinstance(extent, bool)
        and 0 < extent < float("inf")
    ):
        middle = marks.mean(0)
        half = float(extent * (marks - middle).norm(dim=1).max())
        u, v = middle.tolist()
        if max(abs(u), abs(v)) + half <= FURTHEST:
            return (u - half, v - half), (u + half, v + half)
    if (
        isinstance(extent, tuple)
        and len(extent) == 4
        and all(isinstance(each, int | float) for each in extent)
    ):
        left, right, bottom, top = map(float, extent)
        if left < right and bottom < top and max(map(abs, (left, right, bottom, top))) <= FURTHEST:
            return (left, bottom), (right, top)
    allowed = f"a positive number, or (left, right, bottom, top) in slice coordinates; none beyond {FURTHEST:g}"
    raise ArgumentError("partition: extent is not a window", got=extent, allowed=allowed)
