"""Short signals of ten kinds, in the manner of MNIST-1D, made here and the same on every machine.

Note [Signals]. Each class is a stroke of twelve points. An example is its stroke, stretched or
squeezed in height, padded, moved to a random place, sheared, laid over smooth noise, and read at 40
points. Where the stroke stands and the noise around it are the difficulty: a network that does not
use locality does not do well. The idea, and these changes with their strengths, are those of
MNIST-1D (S. Greydanus and D. Kobak, "Scaling down deep learning with MNIST-1D", arXiv:2011.14439);
strokes and random numbers are not. Normal numbers are sums of uniform ones, which are the same on
every machine.
"""

from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from gatewise.checks import check_count
from gatewise.data.catalogue import register_data_set
from gatewise.data.data_set import DataSet, Split, assemble
from gatewise.data.seeds import below, check_key, generator

# One stroke for each class, as heights at equal distances.
STROKES = (
    (0, 2, 3.2, 3.8, 4, 4, 4, 4, 3.8, 3.2, 2, 0),
    (0, -2, -2, -1.6, -1.2, -0.8, -0.4, 0, 0.4, 0.8, 0, 0),
    (0, 1.5, 2, 2, 1.5, 0.4, -0.4, -1, -2, -2, -1.5, 0),
    (0, 1.6, 2.2, 1.6, 0.4, 0, 0, 0.4, 1.6, 2.2, 1.6, 0),
    (0, -0.7, -1.4, -2, -2.6, -2.6, 0, 0, 0, 0, 0, 0),
    (0, -2, -2, -2, -2, 0, 1.2, 1.7, 1.7, 1.2, -0.5, 0),
    (0, -1, -1.7, -2, -2.2, -2.2, -2.2, -2.2, -2, -1.7, -1, 0),
    (0, 2, 2, 1.6, 1.2, 0.8, 0.4, 0, -0.4, -0.8, 0, 0),
    (0, -1.2, -1.8, -1.8, -1.2, 0, 0, -1.2, -1.8, -1.8, -1.2, 0),
    (0, -1.2, -1.8, -1.8, -1.2, 0, 0, 0, 0, -0.4, -0.8, 0),
)
LENGTH = 40
PADDED = 72  # points before the signal is read
STROKE = 12
MOVES = 48  # places, in points
SHEAR = 0.75
STRETCH = 0.4
SMOOTH_NOISE = 0.094  # as 0.25 before it is averaged
NOISE = 0.02
WINDOW = (1, 4, 11, 26, 41, 49, 41, 26, 11, 4, 1)  # a bell: noise is averaged with these weights
MOST = 1_000_000


@register_data_set(
    "signals",
    title="Signals of ten kinds, in the manner of MNIST-1D",
    home="gatewise, after arXiv:2011.14439",
    licence="none needed: computed here",
    sizes=(4000, 10_000),
    classes=10,
    shape=(1, 1, LENGTH),
)
def signals(
    *, folder: str | Path | None = None, train: int = 4000, test: int = 10_000, seed: int = 0
) -> DataSet:
    """Draw signals of 40 numbers; see Note [Signals]. Classes are equally frequent.

    Args:
        folder: not used.
        train: number of signals to train on.
        test: number of signals to test on.
        seed: of the random numbers.
    """
    check_count("data", "train", train, most=MOST)
    check_count("data", "test", test, most=MOST)
    check_key("seed", seed)
    return _drawn(train, test, seed)


@lru_cache(maxsize=2)
def _drawn(train: int, test: int, seed: int) -> DataSet:
    """Return the set; drawing it takes a second."""
    values, labels = draw_signals(train + test, seed)
    values = ((values - values.mean()) / values.std()).float()
    images = values.reshape(-1, 1, 1, LENGTH)
    parts = [Split(images[:train], labels[:train]), Split(images[train:], labels[train:])]
    return assemble("signals", *parts, classes=len(STROKES))


def draw_signals(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return signals (count, 40), float64, and their classes (count); see Note [Signals].

    Args:
        count: number of signals.
        seed: of the random numbers.
    """
    labels = torch.arange(count) % len(STROKES)
    draws = torch.rand(4, count, generator=generator(seed, "signals")).double()
    strokes = torch.tensor(STROKES, dtype=torch.float64)
    strokes = strokes / strokes.std(1, keepdim=True) / 6
    heights = 1 + STRETCH * (draws[0] - 0.5)
    places = below(draws[1], MOVES)
    shears = SHEAR * (draws[2] - 0.5)
    spare = 36 + below(draws[3], 25)  # points that are added to the stroke

    # Pad to twelve points and the spare ones, and read that at 72 points.
    at = torch.arange(PADDED).double() * ((STROKE + spare - 1) / (PADDED - 1)).unsqueeze(1)
    whole = torch.zeros(count, PADDED + 1, dtype=torch.float64)
    whole[:, :STROKE] = strokes[labels]
    low = at.floor().long()
    part = at - low
    padded = whole.gather(1, low) * (1 - part) + whole.gather(1, low + 1) * part
    is_stroke = at < STROKE - 1
    place = (torch.arange(PADDED) - places.unsqueeze(1)) % PADDED
    moved = (padded * heights.unsqueeze(1)).gather(1, place)
    is_stroke = is_stroke.gather(1, place)

    noise = _normal(count, PADDED + len(WINDOW) - 1, generator(seed, "smooth noise"))
    weights = torch.tensor(WINDOW, dtype=torch.float64)
    smooth = noise.unfold(1, len(WINDOW), 1) @ (weights / weights.sum())
    smooth = SMOOTH_NOISE * smooth / smooth.std()
    signal = torch.where(is_stroke, moved, smooth)
    signal = signal + NOISE * _normal(count, PADDED, generator(seed, "noise"))
    slope = torch.arange(PADDED).double() / (PADDED - 1) - 0.5
    signal = signal - shears.unsqueeze(1) * slope
    at = torch.arange(LENGTH).double() * (PADDED - 1) / (LENGTH - 1)
    low = at.floor().long().clamp(max=PADDED - 2)
    part = at - low
    return signal[:, low] * (1 - part) + signal[:, low + 1] * part, labels


def _normal(count: int, length: int, source: torch.Generator) -> Tensor:
    """Return sums of four uniform numbers, scaled to mean 0 and standard deviation 1."""
    return (torch.rand(4, count, length, generator=source).double().sum(0) - 2) * 3**0.5
