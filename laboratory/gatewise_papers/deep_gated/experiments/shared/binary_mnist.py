"""Fours and sevens of MNIST, labelled -1 and +1, and the paper's networks trained on them.

All seeds of a network are trained at once, with stacked weights.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal, Self, TypeAlias

import torch
from torch import Tensor, nn

from gatewise.data import Split
from gatewise.train import tensors_digest
from gatewise_papers.common import Line, line, note_data
from gatewise_papers.data import mnist
from gatewise_papers.deep_gated.experiments.shared.randomness import generator, orders
from gatewise_papers.deep_gated.kernel_measures import AlignmentTracker
from gatewise_papers.deep_gated.networks import DeepGatedNetwork
from gatewise_papers.deep_gated.stacked import (
    StackedNetworks,
    accuracy_by_seed,
    mean_squared_error,
    train_stacked,
)

SplitName: TypeAlias = Literal["train", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "test")
FOUR = 4
SEVEN = 7
PIXELS = 784
LEAST_TEST = 0.97  # the test accuracy of ReLU from which claims about these networks are judged
TRAINING_CURVES = ("loss", "test")  # what a figure shows of a training, by seed


@dataclass(frozen=True)
class BinaryMnistSettings:
    """Sizes; the paper's, except for the batch and, where it does not say, the epochs."""

    reduced: str = ""
    width: int = 100
    depth: int = 6
    lr: float = 1e-4
    batch: int = 64
    epochs: int = 100
    examples: int | None = None  # of the training set; None: all
    subset: int = 100  # of each class, for kernels

    def tiny(self) -> Self:
        """Return the sizes of a run of seconds."""
        return replace(
            self,
            reduced="w=10, 300 images, 2 epochs",
            width=10,
            examples=300,
            epochs=2,
            subset=10,
        )


@dataclass(frozen=True, eq=False)
class BinaryImages:
    """Grey values 0 to 1 as vectors (n, 784), and labels -1 and +1 (n,)."""

    x: Tensor
    y: Tensor

    def balanced(self, count: int) -> "BinaryImages":
        """Return the first ``count`` of each class."""
        rows = torch.cat([(self.y == label).nonzero()[:count, 0] for label in (-1, 1)])
        return BinaryImages(self.x[rows], self.y[rows])


def images(split: SplitName) -> Split:
    """Return one split of MNIST, from the folder that ``GATEWISE_DATA`` names now.

    It is decoded once per process: that takes longer than an epoch of a small network.
    """
    found, digest = _images(split, os.environ.get("GATEWISE_DATA"))
    note_data(f"mnist {split}", digest)
    return found


def read_mnist() -> tuple[str, ...]:
    """Read both splits of MNIST, note them as data of the experiment, and return their digests."""
    digests = []
    for split in SPLITS:
        images(split)
        digests.append(_images(split, os.environ.get("GATEWISE_DATA"))[1])
    return tuple(digests)


@lru_cache(maxsize=2)
def _images(split: SplitName, folder: str | None) -> tuple[Split, str]:
    """Decode one split, with its digest; the cache depends on the folder."""
    found = mnist(split, folder=folder)
    return found, tensors_digest({"images": found.images, "labels": found.labels})


def fours_and_sevens(split: SplitName, limit: int | None = None) -> BinaryImages:
    """Return the fours and sevens of a split, at most ``limit``."""
    chosen = images(split).of_classes(FOUR, SEVEN)
    if limit is not None:
        chosen = chosen.first(limit)
    labels = (chosen.labels == SEVEN).float() * 2 - 1
    return BinaryImages(chosen.images.flatten(1).float() / 255, labels)


def network(
    gate: str,
    settings: BinaryMnistSettings,
    seed: int,
    *,
    purpose: str = "network",
    **options: Any,
) -> DeepGatedNetwork:
    """Return one of the paper's networks with its initial weights.

    Args:
        gate: the kind of gates.
        settings: width and depth.
        seed: of the weights.
        purpose: names the stream of random numbers.
        options: of :class:`DeepGatedNetwork`.
    """
    stream = generator(seed, purpose)
    return DeepGatedNetwork(
        PIXELS,
        settings.width,
        settings.depth,
        gate=gate,
        generator=stream,
        **options,
    )


def with_gates_of(
    trained: StackedNetworks,
    settings: BinaryMnistSettings,
    seeds: tuple[int, ...],
) -> list[DeepGatedNetwork]:
    """Return GaLU networks with the frozen gates of the trained networks and new weights."""
    networks = []
    for place, seed in enumerate(seeds):
        gates = trained.network(place)
        networks.append(network("galu", settings, seed, purpose="second network", gates_from=gates))
    return networks


def fit(
    networks: Sequence[nn.Module],
    settings: BinaryMnistSettings,
    seeds: tuple[int, ...],
    watch: Callable[[int, StackedNetworks], object] | None = None,
) -> tuple[StackedNetworks, dict[str, Any]]:
    """Train by RMSprop.

    Args:
        networks: one per seed.
        settings: sizes of the training.
        seeds: decide the order of the examples.
        watch: called with the number of epochs done and the networks, from 0 on.

    Returns:
        The trained networks; and by seed the loss of each epoch, the test accuracy from the start
        on, and the epoch in which it diverged.
    """
    train = fours_and_sevens("train", settings.examples)
    test = fours_and_sevens("test")
    stacked = StackedNetworks(networks)
    accuracies: list[list[float]] = []

    def evaluate(epoch: int) -> None:
        """Keep the test accuracies after an epoch."""
        accuracies.append(_accuracies(stacked, test))
        if watch:
            watch(epoch, stacked)

    history = train_stacked(
        stacked,
        train.x,
        train.y,
        orders=partial(orders, len(train.x), seeds),
        optimizer="rmsprop",
        lr=settings.lr,
        epochs=settings.epochs,
        batch=settings.batch,
        loss=mean_squared_error,
        watch=evaluate,
    )
    curves = {
        "loss": history.by_seed(),
        "test": [list(values) for values in zip(*accuracies, strict=True)],
        "diverged_at": history.diverged_at,
    }
    return stacked, curves


@torch.no_grad()
def _accuracies(networks: StackedNetworks, data: BinaryImages) -> list[float]:
    """Return every seed's share of examples whose output has the sign of the label."""
    outputs = networks.outputs(data.x).squeeze(-1)
    return accuracy_by_seed(outputs * data.y > 0, outputs)


def fit_and_track(
    networks: Sequence[nn.Module],
    settings: BinaryMnistSettings,
    seeds: tuple[int, ...],
    kernels: tuple[str, ...],
) -> tuple[StackedNetworks, dict[str, Any]]:
    """Train as :func:`fit` does and track the alignment nu of some kernels.

    Args:
        networks: one per seed.
        settings: sizes of the training; nu is measured on the first ``subset`` images per class.
        seeds: decide the order of the examples.
        kernels: names of the kernels.

    Returns:
        The trained networks; and the curves of :func:`fit`, with ``nu`` by kernel and seed after
        each epoch and ``share``, the share of processor time that tracking took.
    """
    subset = fours_and_sevens("train", settings.examples).balanced(settings.subset)
    trackers: list[AlignmentTracker] = []

    def track(epoch: int, stacked: StackedNetworks) -> None:
        """Measure nu for every seed after an epoch."""
        if not trackers:
            first = stacked.network(0)
            for _ in seeds:
                trackers.append(AlignmentTracker(first, subset.x, subset.y, kernels=kernels))
        for place, tracker in enumerate(trackers):
            stacked.network(place)  # loads this seed's weights into the tracked network
            tracker(epoch)

    stacked, curves = fit(networks, settings, seeds, track)
    nu: dict[str, list[list[Any]]] = {}
    for name in kernels:
        nu[name] = [[state.nu[name] for state in tracker.records] for tracker in trackers]
    return stacked, {**curves, "nu": nu, "share": sum(tracker.share for tracker in trackers)}


def nu_line(label: str, curves: dict[str, Any], kernel: str) -> Line:
    """Return nu of one kernel by epoch."""
    seeds = curves["nu"][kernel]
    return line(label, range(len(seeds[0])), seeds)
