"""Fours and sevens of MNIST, labelled -1 and +1, and training the paper's networks on them, all seeds at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.models import DeepGatedNetwork
from gatewise.papers.deep_gated.shared.many_seeds import (
    ManySeeds,
    mean_squared_error,
    shares,
    train,
)
from gatewise.papers.deep_gated.shared.mnist_images import SplitName, images
from gatewise.papers.deep_gated.shared.randomness import generator

FOUR, SEVEN = 4, 7


@dataclass(frozen=True)
class Settings:
    """Sizes; the defaults are the paper's, but for the batch and, where it does not say, the epochs."""

    reduced: str = ""
    width: int = 100
    depth: int = 6
    lr: float = 1e-4
    batch: int = 64
    epochs: int = 100
    examples: int | None = None  # of the training set; None: all
    subset: int = 100  # of each class, for kernels


@dataclass(frozen=True, eq=False)
class Fours7s:
    """Grey values 0 to 1 as vectors (n, 784), and labels -1 and +1 (n,)."""

    x: Tensor
    y: Tensor

    def balanced(self, count: int) -> "Fours7s":
        """The first ``count`` of each class."""
        rows = torch.cat([(self.y == label).nonzero()[:count, 0] for label in (-1, 1)])
        return Fours7s(self.x[rows], self.y[rows])


def fours_and_sevens(split: SplitName, limit: int | None = None) -> Fours7s:
    """Of the ``train`` or the ``test`` images, at most ``limit``."""
    chosen = images(split).of_classes(FOUR, SEVEN)
    chosen = chosen if limit is None else chosen.first(limit)
    return Fours7s(chosen.images.flatten(1).float() / 255, (chosen.labels == SEVEN).float() * 2 - 1)


def network(
    gate: str, sizes: Settings, seed: int, *, purpose: str = "network", **options: Any
) -> DeepGatedNetwork:
    """One of the paper's networks at its start."""
    return DeepGatedNetwork(
        784, sizes.width, sizes.depth, gate=gate, generator=generator(seed, purpose), **options
    )


def with_gates_of(
    trained: ManySeeds, sizes: Settings, seeds: tuple[int, ...]
) -> list[DeepGatedNetwork]:
    """GaLU networks whose gates are, and stay, those of the trained networks.

    Their weights are drawn anew.
    """
    return [
        network("galu", sizes, seed, purpose="second network", gates_from=trained.network(place))
        for place, seed in enumerate(seeds)
    ]


def fit(
    networks: Sequence[nn.Module],
    sizes: Settings,
    seeds: tuple[int, ...],
    watch: Callable[[int, ManySeeds], object] | None = None,
) -> tuple[ManySeeds, dict[str, Any]]:
    """Train by RMSprop; the networks, and by seed the loss of each epoch and the test accuracy from the start on."""
    data, test = fours_and_sevens("train", sizes.examples), fours_and_sevens("test")
    many = ManySeeds(networks)
    right: list[list[float]] = []

    def look(epoch: int) -> None:
        right.append(accuracies(many, test))
        if watch:
            watch(epoch, many)

    training = train(
        many,
        data.x,
        data.y,
        seeds=seeds,
        optimiser="rmsprop",
        lr=sizes.lr,
        epochs=sizes.epochs,
        batch=sizes.batch,
        loss=mean_squared_error,
        watch=look,
    )
    tests = [list(each) for each in zip(*right, strict=True)]
    return many, {"loss": training.by_seed(), "test": tests, "diverged_at": training.diverged_at}


@torch.no_grad()
def accuracies(many: ManySeeds, data: Fours7s) -> list[float]:
    """Every seed's share of examples whose output has the sign of the label."""
    outputs = many.outputs(data.x).squeeze(-1)
    return shares(outputs * data.y > 0, outputs)
