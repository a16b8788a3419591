"""The made-up sets of the papers.

Numbers to be met, defined here in full, the same on every machine.

Note [Sets of regression]

They have no classes (``classes`` is 0) and labels are float32 targets. An input of k numbers is an
image of k channels and one pixel. Where the targets are random there is nothing to generalise to;
the test split is then another draw.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gatewise.data.catalogue import data_set
from gatewise.data.choice import check_count
from gatewise.data.data_set import DataSet, Split, assemble
from gatewise.data.hashing import below, bits, uniform
from gatewise.errors import ArgumentError

PSC = "paper on phase selective convolution, supplement B"
DGN = "paper on deep gated networks"
MOST = 10_000_000
LICENCE = "none needed: computed here"


@data_set(
    "abs_line",
    title="y = |x| on [-1, 1]",
    home=PSC,
    licence=LICENCE,
    sizes=(1000, 1000),
    classes=0,
    shape=(1, 1, 1),
)
def abs_line(*, folder: str | Path | None = None, count: int = 1000) -> DataSet:
    """The absolute value on the midpoints of ``count`` equal intervals.

    The test split has their right ends.

    The mean square over midpoints is the midpoint rule for half of the paper's integral over [-1,
    1].
    """
    check_count("count", count, most=MOST)
    grid = 2 * torch.arange(count, dtype=torch.float64) / count - 1
    train, test = (
        _regression(x.unsqueeze(1), x.abs()) for x in (grid + 1 / count, grid + 2 / count)
    )
    return assemble("abs_line", train, test, classes=0)


@data_set(
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
    check_count("count", count, most=MOST // 2)
    targets = _spread(2 * count, seed)[0]
    train, test = (_regression(torch.ones(count, 1), each) for each in targets.split(count))
    return assemble("same_input", train, test, classes=0)


@data_set(
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
    check_count("count", count, most=MOST // 2)
    drawn = _spread(2 * count, seed, draws=3).t()
    train, test = (_regression(each[:, :2], each[:, 2]) for each in drawn.split(count))
    return assemble("random_plane", train, test, classes=0)


@data_set(
    "one_point",
    title="One example: 1 to 1",
    home=f"{DGN}, experiment 8",
    licence=LICENCE,
    sizes=(1, 1),
    classes=0,
    shape=(1, 1, 1),
)
def one_point(*, folder: str | Path | None = None) -> DataSet:
    """The input 1 with the target 1, to train and to test on."""
    only = _regression(torch.ones(1, 1), torch.ones(1))
    return assemble("one_point", only, only, classes=0)


@data_set(
    "hard_pair",
    title="x to 1 and 2x to -1: no ReLU network without biases fits both",
    home=f"{DGN}, section 1",
    licence=LICENCE,
    sizes=(2, 2),
    classes=0,
    shape=(2, 1, 1),
)
def hard_pair(*, folder: str | Path | None = None, features: int = 2, seed: int = 0) -> DataSet:
    """A point drawn from [-1, 1)^features and its double, with the targets 1 and -1, to train and to test on."""
    check_count("features", features, most=MOST)
    point = _spread(1, seed, draws=features).view(1, -1)
    both = _regression(torch.cat([point, 2 * point]), torch.tensor([1.0, -1.0]))
    return assemble("hard_pair", both, both, classes=0)


@data_set(
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
    """
    check_count("count", count, most=MOST // 2)
    check_count("classes", classes, most=MOST)
    channels, height, width = _check_shape(shape)
    pixels = channels * height * width
    drawn = bits(torch.arange(2 * count), seed=seed, stream="synthetic", draws=pixels + 1)
    images = (2 * uniform(drawn[:-1]) - 1).t().reshape(-1, channels, height, width)
    labels = below(drawn[-1], classes)
    train, test = (
        Split(*each) for each in zip(images.split(count), labels.split(count), strict=True)
    )
    return assemble("random_labels", train, test, classes=classes)


def _spread(count: int, seed: int, draws: int = 1) -> Tensor:
    """Numbers of [-1, 1), one of 2^24 equally distant ones. Shape: (draws, count)."""
    return 2 * uniform(bits(torch.arange(count), seed=seed, stream="synthetic", draws=draws)) - 1


def _regression(inputs: Tensor, targets: Tensor) -> Split:
    """Inputs (n, features) and targets (n) as a split of images with one pixel."""
    return Split(inputs.float().reshape(*inputs.shape, 1, 1), targets.float().contiguous())


def _check_shape(shape: Any) -> tuple[int, int, int]:
    good = (
        isinstance(shape, tuple | list)
        and len(shape) == 3
        and all(type(n) is int and n > 0 for n in shape)
    )
    if not good:
        raise ArgumentError(
            "shape is that of one image", got=shape, allowed="(channels, height, width) from 1"
        )
    channels, height, width = shape
    return channels, height, width
