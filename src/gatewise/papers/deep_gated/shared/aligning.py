"""Training on Binary-MNIST while nu of some kernels is tracked for every seed."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from gatewise.analysis import AlignmentTracker
from gatewise.papers.common import Line, line, mean
from gatewise.papers.deep_gated.shared.binary_mnist import Settings, fit, fours_and_sevens
from gatewise.papers.deep_gated.shared.many_seeds import ManySeeds


def fit_and_track(
    networks: Sequence[nn.Module], sizes: Settings, seeds: tuple[int, ...], kernels: tuple[str, ...]
) -> dict[str, Any]:
    """:func:`fit`, and by kernel and seed nu after each epoch, on the first training images of each class."""
    few = fours_and_sevens("train", sizes.examples).balanced(sizes.subset)
    trackers: list[AlignmentTracker] = []

    def look(epoch: int, many: ManySeeds) -> None:
        if not trackers:
            lent = many.network(0)
            trackers.extend(AlignmentTracker(lent, few.x, few.y, kernels=kernels) for _ in seeds)
        for place, tracker in enumerate(trackers):
            many.network(place)
            tracker(epoch)

    _, found = fit(networks, sizes, seeds, look)
    nu = {
        name: [[each.nu[name] for each in tracker.seen] for tracker in trackers] for name in kernels
    }
    return {**found, "nu": nu, "share": sum(tracker.share for tracker in trackers)}


def nu_lines(label: str, found: dict[str, Any], kernel: str) -> Line:
    """Nu of one kernel by epoch."""
    seeds = found["nu"][kernel]
    return line(label, range(len(seeds[0])), seeds)


def final(found: dict[str, Any], kernel: str) -> float:
    """The mean over seeds of nu at the end."""
    return mean([seed[-1] for seed in found["nu"][kernel] if seed[-1] is not None])
