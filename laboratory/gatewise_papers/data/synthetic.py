"""The artificial sets of the papers, defined here completely and the same on every machine.

Note [Sets of regression]. They have no classes (``classes`` is 0), and labels are float32 targets.
An input of k numbers is an image of k channels and one pixel. Where targets are random there is
nothing to generalise to; the test split is then another draw.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gatewise.checks import check_count
from gatewise.data import DataSet, Split, assemble, generator, register_data_set
from gatewise.data.seeds import check_key
from gatewise.errors import ArgumentError

PSC = "paper on phase selective convolution, supplement B"
DGN = "paper on deep gated networks"
MOST = 10_000_000
LICENCE = "none needed: computed here"


@register_data_set(
    "abs_line",
    title="y = |x| on [-1, 1]",
    home=PSC,
    licence=LICENCE,
    sizes=(1000, 1000),
    classes=0,
    shape=(1, 1, 1),
)
def abs_line(*, folder: str | Path | None = None, count: int = 1000) -> DataSet:
    """The absolute value at the midpoints of ``count`` equal intervals of [-1, 1].

    The test split has the right ends of the intervals. The mean square over midpoints is the
    midpoint rule for half of the paper's integral over [-1, 1].
    """
    check_count("data", "count", count, most=MOST)
    grid = 2 * torch.arange(count, dtype=torch.float64) / count - 1
    middles = grid + 1 / count
    ends = grid + 2 / count
    train = _regression(middles.unsqueeze(1), middles.abs())
    test = _regression(ends.unsqueeze(1), ends.abs())
    return assemble("abs_line", train, test, classes=0)


@register_data_set(
    "same_input",
    title="One input with many targets",
    home=f"{DGN}, experiment 1",
    licence=LICENCE,
    sizes=(200, 200),
    classes=0,
    shape=(1, 1, 1),
)
def same_input(*, folder: str | Path | None = None, count: int = 200, seed: int = 0) -> DataSet:
    """Every input is 1 and every target is drawn from [-1, 1): the worst case for optimisation."""
    check_count("data", "count", count, most=MOST // 2)
    targets = _spread(2 * count, seed)[0]
    inputs = torch.ones(count, 1)
    train = _regression(inputs, targets[:count])
    test = _regression(inputs, targets[count:])
    return assemble("same_input", train, test, classes=0)


@register_data_set(
    "random_plane",
    title="Random targets at random points of a square",
    home=f"{DGN}, experiment 2",
    licence=LICENCE,
    sizes=(100, 100),
    classes=0,
    shape=(2, 1, 1),
)
def random_plane(*, folder: str | Path | None = None, count: int = 100, seed: int = 0) -> DataSet:
    """Inputs drawn from [-1, 1)^2 and targets from [-1, 1)."""
    check_count("data", "count", count, most=MOST // 2)
    points = _spread(2 * count, seed, draws=3).t()
    train = _regression(points[:count, :2], points[:count, 2])
    test = _regression(points[count:, :2], points[count:, 2])
    return assemble("random_plane", train, test, classes=0)


@register_data_set(
    "one_point",
    title="One example: 1 to 1",
    home=f"{DGN}, experiment 8",
    licence=LICENCE,
    sizes=(1, 1),
    classes=0,
    shape=(1, 1, 1),
)
def one_point(*, folder: str | Path | None = None) -> DataSet:
    """The input 1 with the target 1, in both splits."""
    only = _regression(torch.ones(1, 1), torch.ones(1))
    return assemble("one_point", only, only, classes=0)


@register_data_set(
    "hard_pair",
    title="x to 1 and 2x to -1: no ReLU network without biases fits both",
    home=f"{DGN}, section 1",
    licence=LICENCE,
    sizes=(2, 2),
    classes=0,
    shape=(2, 1, 1),
)
def hard_pair(*, folder: str | Path | None = None, features: int = 2, seed: int = 0) -> DataSet:
    """A point drawn from [-1, 1)^features with target 1, and its double with target -1.

    Both splits are the same.
    """
    check_count("data", "features", features, most=MOST)
    point = _spread(1, seed, draws=features).view(1, -1)
    both = _regression(torch.cat([point, 2 * point]), torch.tensor([1.0, -1.0]))
    return assemble("hard_pair", both, both, classes=0)


@register_data_set(
    "random_labels",
    title="Noise with random classes: what a network can memorise",
    home="Zhang et al., 2017, and the paper on deep gated networks, section 1",
    licence=LICENCE,
    sizes=(1000, 1000),
    classes=10,
    shape=(1, 8, 8),
)
def random_labels(
    *,
    folder: str | Path | None = None,
    count: int = 1000,
    classes: int = 10,
    shape: tuple[int, int, int] = (1, 8, 8),
    seed: int = 0,
) -> DataSet:
    """Images of independent pixels drawn from [-1, 1), each with a random class.

    The test split is another draw.

    Args:
        folder: not used.
        count: number of examples in each split.
        classes: number of classes.
        shape: of one image: channels, height, width.
        seed: of the random numbers.
    """
    check_count("data", "count", count, most=MOST // 2)
    check_count("data", "classes", classes, most=MOST)
    channels, height, width = _check_shape(shape)
    pixels = channels * height * width
    images = _spread(2 * count, seed, draws=pixels).t().reshape(-1, channels, height, width)
    labels = torch.randint(classes, (2 * count,), generator=generator(seed, "labels"))
    train = Split(images[:count], labels[:count])
    test = Split(images[count:], labels[count:])
    return assemble("random_labels", train, test, classes=classes)


def _spread(count: int, seed: int, draws: int = 1) -> Tensor:
    """Return numbers of [-1, 1), each one of 2^24 equally spaced ones: (draws, count)."""
    check_key("seed", seed)
    return (2 * torch.rand(count, draws, generator=generator(seed, "synthetic")) - 1).t()


def _regression(inputs: Tensor, targets: Tensor) -> Split:
    """Return inputs (n, features) and targets (n) as a split of images with one pixel."""
    return Split(inputs.float().reshape(*inputs.shape, 1, 1), targets.float().contiguous())


def _check_shape(shape: Any) -> tuple[int, int, int]:
    good = (
        isinstance(shape, tuple | list)
        and len(shape) == 3
        and all(type(n) is int and n > 0 for n in shape)
    )
    if not good:
        raise ArgumentError(
            "shape must be that of one image",
            got=shape,
            allowed="(channels, height, width) from 1",
        )
    channels, height, width = shape
    return channels, height, width
