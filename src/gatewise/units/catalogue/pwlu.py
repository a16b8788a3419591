"""PWLU: a trainable piecewise-linear curve."""

import math

import torch
from torch import Tensor, nn

from gatewise.checks import check_count, check_number
from gatewise.errors import ArgumentError
from gatewise.units.contract import (
    RECTIFIED,
    Device,
    DType,
    UnitModule,
    allocating,
    cast_like_input,
    check_channels,
    check_input,
    error_bounds,
    promise,
    resolve_dim,
    to_compute_dtype,
    unit,
)


def pwlu(
    x: Tensor,
    heights: Tensor,
    slopes: Tensor,
    bounds: Tensor,
    dim: int = 1,
) -> Tensor:
    r"""Return a continuous curve of straight pieces.

    .. math:: f(x) = \begin{cases} y_0 + k_L (x - l) & x \le l \\
        y_i + (y_{i+1} - y_i)(x - t_i)/d & t_i < x \le t_{i+1} \\
        y_N + k_R (x - r) & x > r \end{cases}

    with knots :math:`t_i = l + i d`, :math:`d = (r - l) / N`: equal intervals between the bounds,
    and one line beyond each bound. The derivative at a knot is that of the piece to its left.

    Args:
        x: the input, a real floating point tensor.
        heights: the values :math:`y` at the knots, ``(C, N+1)``, with ``C`` 1 or the number of
            channels.
        slopes: the outer slopes :math:`(k_L, k_R)`, ``(C, 2)``.
        bounds: the outer knots :math:`(l, r)`, ``(C, 2)``.
        dim: the channel dimension of the input.

    Shape: ``(*) -> (*)``.

    Zhou et al., 2021, "Learning Specialized Activation Functions with the Piecewise Linear Unit",
    arXiv:2104.03693. Only its abstract was available: the number of intervals and the realignment
    of the bounds are common practice and were not checked against the text.
    """
    w = to_compute_dtype(check_input("pwlu", x))
    shape = _table_shape(heights, slopes, bounds, x, dim)
    heights = cast_like_input("pwlu", "heights", heights, x)
    slopes = cast_like_input("pwlu", "slopes", slopes, x)
    bounds = cast_like_input("pwlu", "bounds", bounds, x)
    return _evaluate(w, shape, heights, slopes, bounds).to(x.dtype)


def _table_shape(
    heights: Tensor,
    slopes: Tensor,
    bounds: Tensor,
    x: Tensor,
    dim: int,
) -> list[int]:
    """Return the shape in which a column of the tables broadcasts with ``x``."""
    tables = (heights, slopes, bounds)
    are_tensors = all(isinstance(table, Tensor) for table in tables)
    count = heights.shape[0] if are_tensors and heights.dim() == 2 else 0
    if count == 0 or heights.shape[1] < 2 or not slopes.shape == bounds.shape == (count, 2):
        raise ArgumentError(
            "pwlu: the tables do not fit together",
            got=[tuple(getattr(t, "shape", ())) for t in tables],
            allowed="heights (C, N+1), slopes (C, 2) and bounds (C, 2)",
        )
    if count == 1:
        return [1] * x.dim()
    axis = resolve_dim("pwlu", x, dim)
    if count != x.shape[axis]:
        raise ArgumentError(
            "pwlu: the number of channels of the tables does not fit the input",
            got=f"{count} for shape {tuple(x.shape)}",
            allowed=f"1 or {x.shape[axis]}",
        )
    return [-1 if i == axis else 1 for i in range(x.dim())]


def _evaluate(
    w: Tensor,
    shape: list[int],
    heights: Tensor,
    slopes: Tensor,
    bounds: Tensor,
) -> Tensor:
    left, right = (bound.reshape(shape) for bound in bounds.unbind(1))
    low, high = (slope.reshape(shape) for slope in slopes.unbind(1))
    step = (right - left) / (heights.shape[1] - 1)
    # There is nothing between bounds that meet or have crossed. A division by their distance would
    # give NaN in the backward pass.
    step = torch.where(step > torch.finfo(step.dtype).tiny * 2.0**24, step, 1.0)
    below = w <= left
    above = w > right
    inside = _inside(torch.where(below | above, left, w), shape, heights, left, step)
    left_line = heights[:, 0].reshape(shape) + _line(w, left, low)
    right_line = heights[:, -1].reshape(shape) + _line(w, right, high)
    return torch.where(below, left_line, torch.where(above, right_line, inside))


def _inside(
    w: Tensor,
    shape: list[int],
    heights: Tensor,
    left: Tensor,
    step: Tensor,
) -> Tensor:
    count = heights.shape[1]
    piece = _find_piece(w.detach(), left.detach(), step.detach(), count - 1)
    rows = count * torch.arange(heights.shape[0], device=w.device).reshape(shape)
    # An index without dimensions would be read as a number, which cannot be traced.
    place = (rows + piece)[..., None]
    start = heights.reshape(-1)[place][..., 0]
    end = heights.reshape(-1)[place + 1][..., 0]
    return start + (w - (left + piece * step)) * ((end - start) / step)


def _find_piece(
    w: Tensor,
    left: Tensor,
    step: Tensor,
    count: int,
) -> Tensor:
    """Return the index of the piece ``(t_i, t_{i+1}]`` that contains ``w``.

    The first guess may be wrong by one because of rounding, so it is compared with the knots.
    """
    guess = torch.ceil((w - left) / step) - 1
    guess = torch.where(guess.isnan(), 0.0, guess).clamp(0, count - 1)
    guess = guess - (w <= left + guess * step).to(guess.dtype)
    guess = guess + (w > left + (guess + 1) * step).to(guess.dtype)
    return guess.clamp(0, count - 1).to(torch.int64)


def _line(w: Tensor, start: Tensor, slope: Tensor) -> Tensor:
    """Return ``(w - start) * slope``, which is 0 for a flat line also at infinity."""
    return torch.where(w.isinf() & (slope == 0), 0.0, w - start) * slope


def _reference(
    x: Tensor,
    heights: Tensor,
    slopes: Tensor,
    bounds: Tensor,
    dim: int = 1,
) -> Tensor:
    """Return the curve as a sum of hinges: the first line plus a change of slope at each knot.

    A value on a knot counts as left of the knot.
    """
    x = x.movedim(dim, -1)
    count = heights.shape[1] - 1
    left, step = bounds[:, 0], (bounds[:, 1] - bounds[:, 0]) / count
    inner = [(heights[:, i + 1] - heights[:, i]) / step for i in range(count)]
    lines = [slopes[:, 0], *inner, slopes[:, 1]]
    y = heights[:, 0] + (x - left) * lines[0]
    for i in range(count + 1):
        y = y + (x - (left + i * step)).relu() * (lines[i + 1] - lines[i])
    return y.movedim(-1, dim)


def _kinks(bound: float = 3.0, intervals: int = 16) -> dict[float, float]:
    """Return the knots and the derivative there, NaN if 0 is not a knot."""
    kinks = {0.0: 0.0} if intervals % 2 else {}
    for i in range(intervals + 1):
        derivative = math.nan if intervals % 2 else float(2 * i > intervals)
        kinks[bound * (2 * i / intervals - 1)] = derivative
    return kinks


@unit(
    name="pwlu",
    title="Piecewise linear unit",
    family="piecewise",
    on="gate > 1/2",
    function=pwlu,
    formula=r"y_i + (y_{i+1} - y_i)\,\frac{x - t_i}{d},\quad t_i < x \leq t_{i+1}",
    paper="Zhou et al., 2021 (arXiv:2104.03693)",
    studied_in=(),
    reference=_reference,
    limits=RECTIFIED,
    kinks=_kinks,
    parameters={
        "heights": "ReLU at the knots",
        "slopes": "0 and 1",
        "bounds": "-3 and 3",
    },
    error=error_bounds(
        half=promise(1),
        float32=promise(4),
    ),
    samples=(
        {},
        {
            "channels": 6,
            "intervals": 4,
            "bound": 2.0,
        },
    ),
    note="Call realign(x) on early batches to move the bounds to the inputs. The curve keeps its "
    "values at the new knots, and changes between them.",
)
class PWLU(UnitModule):
    """Module form of :func:`pwlu`, which starts as ReLU sampled at the knots.

    Args:
        intervals: the number of intervals between the bounds.
        bound: the bounds start at ``-bound`` and ``bound``.
        channels: the number of channels for one set of parameters per channel; ``None`` for one set
            in all.
        dim: the channel dimension of the input.
        device: the device of the parameters.
        dtype: the dtype of the parameters.
    """

    def __init__(
        self,
        *,
        intervals: int = 16,
        bound: float = 3.0,
        channels: int | None = None,
        dim: int = 1,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        super().__init__(
            intervals=intervals,
            bound=bound,
            channels=channels,
            dim=dim,
        )
        self.intervals = check_count("pwlu", "intervals", intervals, least=1)
        self.bound = check_number("pwlu", "bound", bound, above=0.0)
        self.dim = dim
        count = check_channels("pwlu", channels) or 1
        with allocating("pwlu", device, dtype):
            # Values at the knots, slopes beyond them, and the outer knots.
            self.heights = nn.Parameter(
                torch.empty(count, intervals + 1, device=device, dtype=dtype)
            )
            self.slopes = nn.Parameter(torch.empty(count, 2, device=device, dtype=dtype))
            self.bounds = nn.Parameter(torch.empty(count, 2, device=device, dtype=dtype))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Set the curve to ReLU."""
        step = 2 * self.bound / self.intervals
        knots = [-self.bound + i * step for i in range(self.intervals + 1)]
        self.heights.copy_(torch.tensor([max(0.0, knot) for knot in knots]))
        self.slopes.copy_(torch.tensor([0.0, 1.0]))
        self.bounds.copy_(torch.tensor([-self.bound, self.bound]))

    @torch.no_grad()
    def realign(self, x: Tensor) -> None:
        """Move the bounds to the mean plus and minus 3 standard deviations of ``x``.

        The present curve is sampled at the new knots and becomes straight between them, so that old
        knots in between are lost. Channels that do not vary keep their bounds.

        Args:
            x: a batch of inputs of the unit.
        """
        axis = resolve_dim("pwlu", check_input("pwlu", x), self.dim)
        columns = to_compute_dtype(x).movedim(axis, 0).reshape(x.shape[axis], -1)
        columns = columns if self.heights.shape[0] > 1 else columns.reshape(1, -1)
        mean = columns.mean(1)
        spread = 3 * columns.std(1, correction=0)
        bounds = torch.stack((mean - spread, mean + spread), 1).to(self.bounds)
        bounds = torch.where((spread > 0)[:, None].to(self.bounds.device), bounds, self.bounds)
        share = torch.linspace(0, 1, self.intervals + 1, device=bounds.device, dtype=bounds.dtype)
        knots = torch.lerp(bounds[:, :1], bounds[:, 1:], share)
        heights = pwlu(knots, self.heights, self.slopes, self.bounds, dim=0)
        self.heights.copy_(heights)
        self.bounds.copy_(bounds)

    def forward(self, x: Tensor) -> Tensor:
        return pwlu(x, **self.arguments(x))
