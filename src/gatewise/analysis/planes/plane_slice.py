"""A window of the plane through three inputs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gatewise.checks import is_number
from gatewise.errors import ArgumentError, Limitation, NotApplicableError

Extent = float | tuple[float, float, float, float]
LARGEST_COORDINATE = 1e100  # areas of larger windows would overflow


@dataclass(frozen=True, eq=False)
class Slice:
    """The inputs ``origin + u axes[0] + v axes[1]`` with (u, v) between ``low`` and ``high``.

    Attributes:
        origin: (*input), float64.
        axes: (2, *input), orthonormal.
        low: the smallest u and v.
        high: the largest u and v.
        marks: (3, 2), the coordinates of the three inputs.
    """

    origin: Tensor
    axes: Tensor
    low: tuple[float, float]
    high: tuple[float, float]
    marks: Tensor

    def inputs(self, coordinates: Tensor) -> Tensor:
        """The inputs (n, *input) at ``coordinates`` (n, 2)."""
        return self.origin + torch.einsum("nk,k...->n...", coordinates.double(), self.axes)

    @property
    def plane(self) -> Tensor:
        """The input as an affine function of the coordinates: (3, *input)."""
        return torch.cat((self.origin[None], self.axes))

    @property
    def area(self) -> float:
        """The area of the window."""
        return (self.high[0] - self.low[0]) * (self.high[1] - self.low[1])

    @property
    def bounds(self) -> np.ndarray:
        """The largest absolute value of each coordinate, (2,)."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def grid(self, steps: int) -> Tensor:
        """The centres of ``steps`` by ``steps`` cells, (steps², 2), row by row of equal ``v``."""
        numbers = torch.arange(steps, dtype=torch.float64) + 0.5
        u = self.low[0] + (self.high[0] - self.low[0]) * numbers / steps
        v = self.low[1] + (self.high[1] - self.low[1]) * numbers / steps
        return torch.stack((u.repeat(steps), v.repeat_interleave(steps)), 1)


def slice_through(three_points: Tensor | Sequence[Tensor], extent: Extent) -> Slice:
    """The window of the plane through three inputs.

    Args:
        three_points: (3, *input). The first is the origin, the second is on the first axis.
        extent: the size of the window, as for ``partition``.
    """
    points = _check_points(three_points)
    flat = points.flatten(1)
    first = flat[1] - flat[0]
    second = flat[2] - flat[0]
    length = first.norm()
    unit = first / length
    rest = second - (second @ unit) * unit
    # Once more: nearly parallel differences lose digits in the first projection.
    rest = rest - (rest @ unit) * unit
    height = rest.norm()
    if not length > 0 or not height > 1e-10 * second.norm():
        raise NotApplicableError(
            Limitation.ON_ONE_LINE,
            "partition: three_points must not be on one line",
            got=f"distances {float(length):.3g} and {float(height):.3g}",
            fix="choose another third input",
        )
    axes = torch.stack((unit, rest / height))
    on_axis = torch.stack((length, torch.zeros_like(length)))
    marks = torch.stack((torch.zeros_like(on_axis), on_axis, axes @ second))
    low, high = _window(marks, extent)
    return Slice(points[0], axes.reshape(2, *points.shape[1:]), low, high, marks)


def _check_points(points: Tensor | Sequence[Tensor]) -> Tensor:
    try:
        stacked = points if isinstance(points, Tensor) else torch.stack(list(points))
    except (TypeError, RuntimeError) as problem:
        raise ArgumentError(
            "partition: three_points are not three inputs",
            got=points,
            allowed="a tensor (3, *input), or three tensors of one shape",
        ) from problem
    is_three = stacked.dim() >= 2 and len(stacked) == 3
    if not is_three or not stacked.is_floating_point() or not stacked.isfinite().all():
        raise ArgumentError(
            "partition: three_points are not three inputs",
            got=f"{tuple(stacked.shape)} of {stacked.dtype}",
            allowed="a tensor (3, *input) of finite numbers, or three such inputs",
        )
    return stacked.detach().double()


def _window(marks: Tensor, extent: Extent) -> tuple[tuple[float, float], tuple[float, float]]:
    """The lowest and the highest corner."""
    if is_number(extent) and 0 < extent < float("inf"):
        middle = marks.mean(0)
        half = float(extent * (marks - middle).norm(dim=1).max())
        u, v = middle.tolist()
        if max(abs(u), abs(v)) + half <= LARGEST_COORDINATE:
            return (u - half, v - half), (u + half, v + half)
    if isinstance(extent, tuple) and len(extent) == 4 and all(map(is_number, extent)):
        left, right, bottom, top = map(float, extent)
        largest = max(map(abs, (left, right, bottom, top)))
        if left < right and bottom < top and largest <= LARGEST_COORDINATE:
            return (left, bottom), (right, top)
    raise ArgumentError(
        "partition: extent is not a window",
        got=extent,
        allowed="a positive number, or (left, right, bottom, top) in slice coordinates; "
        f"none beyond {LARGEST_COORDINATE:g}",
    )
