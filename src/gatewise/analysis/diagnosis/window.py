"""How large a window of a plane can be divided into linear regions within the limits.

A large network has countless regions in a plane through three images, and each region takes one
run of the network in double precision. Their number is estimated from the gates that change within
the window: ``n`` lines that cross a square at random divide it into about ``1 + n + n² / 4`` parts.

Windows are centred on the mean of the three inputs, not on one of them. At an image with a uniform
patch, the inputs of a max-pooling are equal. So many regions meet there that no window around it
is small enough.
"""

import math
import time

import torch
from torch import Tensor

from gatewise.analysis.diagnosis.context import DiagnosisContext
from gatewise.analysis.gating import GateSite, SiteStream
from gatewise.analysis.planes import slice_through
from gatewise.analysis.regions import Partition, partition
from gatewise.errors import Limitation, NotApplicableError
from gatewise.graph import LEAVES

WIDEST = 1.5  # half the window's side, in units of the three inputs' distance from their mean
HALVINGS = 30  # of the first window, at most
REGIONS = 4000  # more cannot be told apart on a page
REGIONS_OF_A_FRAME = 1000  # in one frame of a film, which is smaller
BYTES = 8 * 3 * 3  # a region needs for each number of the largest tensor: its map, and copies of it
TRIES = 4
# Where gates are compared, as shares of the window: corners, centre and two edges, POINTS in all.
PLACES = ((0, 0), (0, 1), (1, 0), (1, 1), (0.5, 0.5), (0, 0.5), (1, 0.5))
LEAST = 32  # regions that are worth a picture, however long they take


def widest_partition(
    context: DiagnosisContext,
    points: Tensor,
    *,
    seconds: float | None = None,
    most: int = REGIONS,
) -> tuple[Partition, float]:
    """Return the partition of about the widest window within the limits.

    Args:
        context: The model and the limits.
        points: Three inputs.
        seconds: The time limit. That of the context by default.
        most: The largest number of regions.

    Returns:
        The partition, and half the side of its window in units of the inputs' distance.

    Raises:
        NotApplicableError: No window has few enough regions.
    """
    seconds = context.seconds if seconds is None else seconds
    until = time.monotonic() + seconds
    fitting = min(most, _fitting_regions(context))
    # A region takes about six runs of the model; a third of the time is for the first try.
    by_time = int(seconds / 3 / (6 * seconds_per_input(context, points)))
    limit = min(fitting, max(LEAST, by_time))
    extent = _first_extent(context, points, limit)
    best: tuple[Partition, float] | None = None
    for attempt in range(TRIES):
        began = time.monotonic()
        try:
            regions = partition(context.function, points, extent=extent, limit=max(limit, 2))
        except NotApplicableError as problem:
            if problem.limitation is not Limitation.TOO_MANY_REGIONS:
                raise
            if best is not None:
                return best
            extent /= 8  # the estimate was far too low
            continue
        assert isinstance(regions, Partition)  # noqa: S101 - the network is not soft
        best = (regions, extent)
        context.progress(attempt + 1, TRIES)
        taken = time.monotonic() - began
        remaining = max(until - time.monotonic(), 0)
        limit = min(fitting, int(max(regions.count, 8) * remaining / taken))
        growth = math.sqrt(0.7 * limit / max(8, regions.count))
        # The number of regions grows with the area; 0.7 leaves room for error.
        wider = min(WIDEST, extent * min(3.0, growth))
        if wider < 1.25 * extent:  # not worth another try
            return best
        extent = wider
    if best is None:
        raise NotApplicableError(
            Limitation.TOO_LARGE, "no window is small enough to count its regions"
        )
    return best


def grid_steps(context: DiagnosisContext, points: Tensor) -> int:
    """Return how many cells along a side of a grid can be computed for a soft network in time.

    Args:
        context: The model and the time limit.
        points: Some inputs, on which the model is timed.
    """
    per_side = math.sqrt(context.seconds / 2 / seconds_per_input(context, points))
    return int(min(64, max(8, per_side)))


def seconds_per_input(context: DiagnosisContext, points: Tensor) -> float:
    """Return the time that the model takes for one input.

    Args:
        context: The model.
        points: The inputs of one run.
    """
    began = time.monotonic()
    with torch.no_grad():
        context.model(points)
    return max(time.monotonic() - began, 1e-6) / len(points)


def _fitting_regions(context: DiagnosisContext) -> int:
    """Return how many regions fit into memory, by the largest tensor of the model."""
    largest = 0
    for node in context.reading.graph:
        if node.shape and node.op not in LEAVES:
            largest = max(largest, math.prod(node.shape[1:]))
    return max(2, min(REGIONS, context.memory // (BYTES * largest)))


def _first_extent(context: DiagnosisContext, points: Tensor, most: int) -> float:
    """Halve the widest window until it is estimated to have at most ``most`` regions."""
    stream = SiteStream("partition", context.model)
    extent = WIDEST
    for _ in range(HALVINGS):
        lines = _changing_gates(stream, points, extent)
        if 1 + lines + lines**2 / 4 <= most:
            break
        extent /= 2
    return extent


def _changing_gates(stream: SiteStream, points: Tensor, extent: float) -> int:
    """Return how many gates are not the same at some points of the window."""
    window = slice_through(points.cpu(), extent)
    low = torch.tensor(window.low, dtype=torch.float64)
    high = torch.tensor(window.high, dtype=torch.float64)
    places = low + (high - low) * torch.tensor(PLACES, dtype=torch.float64)
    total = 0

    def count(site: GateSite, gate: Tensor) -> None:
        nonlocal total
        on = (gate if gate.dtype == torch.bool else gate > 0.5).flatten(1)
        total += int((on.any(0) & ~on.all(0)).sum())

    stream.run(window.inputs(places).to(points), count)
    return total
