"""How wide a window of the plane can be cut into regions with the time and memory there is.

A large network has regions without number in a plane through three images, and each takes a pass of
the network in double precision. How many there are is guessed from the units that change within the
window: ``lines`` that cross a square at random cut it into some ``1 + lines + lines² / 4`` parts.

Windows are about the mean of the three inputs, not about one of them: at an image with an even
patch the inputs of a max-pooling are equal, and so many regions meet there that no window about it
is small enough.
"""

import math
import time

import torch
from torch import Tensor

from gatewise.analysis.diagnosis.context import Subject
from gatewise.analysis.diagnosis.finding import DoesNotApply
from gatewise.analysis.gating import GateSite, SiteStream
from gatewise.analysis.planes import slice_through
from gatewise.analysis.regions import Partition, partition
from gatewise.errors import ArgumentError
from gatewise.graph import LEAVES

WIDEST = 1.5  # half the window's side, in units of the three inputs' distance from their mean
HALVINGS = 30  # of it at most
REGIONS = 4000  # more are not told apart on a page
REGIONS_OF_A_FRAME = 1000  # the same of a picture in a film, which is smaller
BYTES = (
    8 * 3 * 3
)  # for each number of the largest tensor and each region: its map, and copies of it
TRIES = 4
LEAST = 32  # regions that are worth a picture, however long they take


def widest(
    subject: Subject, points: Tensor, *, seconds: float | None = None, most: int = REGIONS
) -> tuple[Partition, float]:
    """The partition of about the widest window within the limits, and half its side in units of the distance."""
    seconds = subject.seconds if seconds is None else seconds
    until = time.monotonic() + seconds
    room = min(most, _room(subject))
    most = min(room, max(LEAST, int(seconds / 3 / (6 * seconds_of_one(subject, points)))))
    extent = _first(subject, points, most)
    best: tuple[Partition, float] | None = None
    for attempt in range(TRIES):
        began = time.monotonic()
        try:
            found = partition(subject.map, points, extent=extent, limit=max(most, 2))
        except ArgumentError as problem:
            if "limit" not in str(problem):
                raise
            if best is not None:
                return best
            extent /= 8
            continue
        assert isinstance(found, Partition)  # noqa: S101 - the network is not soft
        best = (found, extent)
        subject.count(attempt + 1, TRIES)
        taken, left = time.monotonic() - began, until - time.monotonic()
        most = min(room, int(max(found.count, 8) * max(left, 0) / taken))
        wider = min(WIDEST, extent * min(3.0, math.sqrt(0.7 * most / max(8, found.count))))
        if wider < 1.25 * extent:
            return best
        extent = wider
    if best is None:
        raise DoesNotApply("too large", "no window is small enough to count its regions")
    return best


def grid_steps(subject: Subject, points: Tensor) -> int:
    """Cells along a side of the grid that a soft network is looked at on, as time allows."""
    return int(min(64, max(8, math.sqrt(subject.seconds / 2 / seconds_of_one(subject, points)))))


def seconds_of_one(subject: Subject, points: Tensor) -> float:
    """What the model takes for an input."""
    began = time.monotonic()
    with torch.no_grad():
        subject.model(points)
    return max(time.monotonic() - began, 1e-6) / len(points)


def _room(subject: Subject) -> int:
    """Regions whose largest tensor fits into memory."""
    nodes = (node for node in subject.reading.graph if node.shape and node.op not in LEAVES)
    largest = max(math.prod((node.shape or ())[1:]) for node in nodes)
    return max(2, min(REGIONS, subject.memory // (BYTES * largest)))


def _first(subject: Subject, points: Tensor, most: int) -> float:
    """The widest window, of those halved again and again, that is guessed to have fewer than ``most`` regions."""
    stream = SiteStream("partition", subject.model)
    extent = WIDEST
    for _ in range(HALVINGS):
        lines = _lines(stream, points, extent)
        if 1 + lines + lines**2 / 4 <= most:
            break
        extent /= 2
    return extent


def _lines(stream: SiteStream, points: Tensor, extent: float) -> int:
    """Gates that are not the same at nine points of the window."""
    window = slice_through(points.cpu(), extent)
    low, high = (torch.tensor(each, dtype=torch.float64) for each in (window.low, window.high))
    parts = torch.tensor([0, 0.5, 1], dtype=torch.float64)
    places = low + (high - low) * torch.cartesian_prod(parts, parts)
    found: list[int] = []

    def tell(site: GateSite, gate: Tensor) -> None:
        on = (gate if gate.dtype == torch.bool else gate > 0.5).flatten(1)
        found.append(int((on.any(0) & ~on.all(0)).sum()))

    stream.run(window.inputs(places).to(points), tell)
    return sum(found)
