"""What a run minimises and how it is judged: on images and text by the recipe, or by user code."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from gatewise.data import Augment, Split
from gatewise.extensions import load_extensions, unknown_addition
from gatewise.train.config import Loss, Recipe
from gatewise.train.loop.batches import Batch
from gatewise.train.loop.evaluation import evaluate, evaluating, in_precision
from gatewise.train.loop.losses import count_right, example_losses, row_losses

Shape = tuple[int, ...]
ROWS = 64  # of text evaluated at once; fixed, because last bits may depend on it


class Examples(Protocol):
    """A part of an epoch: ``whole`` examples of all processes, of which these are ``index``."""

    @property
    def index(self) -> Tensor:
        """Where each example stands in the training set."""
        ...

    @property
    def whole(self) -> int:
        """How many examples there are, of all processes."""
        ...


class BatchSource(Protocol):
    """The training set in batches."""

    @property
    def count(self) -> int:
        """Batches in an epoch."""
        ...

    @property
    def examples(self) -> int:
        """Examples in an epoch."""
        ...

    def walk(self, epoch: int, start: int, workers: int = 0) -> Iterator[Any]:
        """Yield the batches of an epoch from the one at ``start`` on."""
        ...


@dataclass(frozen=True)
class StepLoss:
    """The losses of a batch: one number per example or their sum, and how many are right."""

    losses: Tensor
    right: int = 0


@dataclass(frozen=True)
class Measured:
    """Metrics on some examples, and which of them are right, if that is known."""

    metrics: Mapping[str, float | None]
    right: Tensor | None = None  # (examples,), bool


class Objective(ABC):
    """The loss of a batch, and the metrics after an epoch.

    Attributes:
        parts: names of the data that are evaluated; metrics begin with them.
        counts: whether training counts right answers.
        decisive: metrics, without the name of the data, that must be finite.
    """

    parts: tuple[str, ...]
    counts: bool
    decisive: tuple[str, ...] = ("loss",)

    @abstractmethod
    def step(self, call: Callable[..., Any], batch: Any) -> StepLoss:
        """Return the losses of a batch.

        Args:
            call: the network, or what averages its gradients over processes.
            batch: of the run's batches.
        """

    @abstractmethod
    def measure(self, model: nn.Module, part: str, halt: Callable[[], None]) -> Measured:
        """Return the metrics on one of ``parts``.

        Args:
            model: the network.
            part: one of ``parts``.
            halt: called between batches; it may raise to end the evaluation.
        """


@dataclass
class ImageObjective(Objective):
    """The loss of the recipe, and accuracy, on images.

    Args:
        recipe: of the run.
        augment: of the recipe, with the normalisation of the data.
        evaluated: what is evaluated after an epoch, by the name that metrics have.
        counts: whether labels are classes.
        device: of the network.
    """

    recipe: Recipe
    augment: Augment
    evaluated: dict[str, Split]
    counts: bool
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def parts(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Names of the evaluated data."""
        return tuple(self.evaluated)

    def step(self, call: Callable[..., Any], batch: Batch) -> StepLoss:
        """Return the losses of a batch."""
        labels = batch.labels.to(self.device)
        with in_precision(self.recipe.precision, self.device):
            outputs = call(self.recipe.placed(batch.images, self.device))
        losses = example_losses(self.recipe.loss, outputs, labels)
        return StepLoss(losses, count_right(outputs.detach(), labels))

    def measure(self, model: nn.Module, part: str, halt: Callable[[], None]) -> Measured:
        """Return loss and accuracy on one split."""
        score = evaluate(
            model,
            self.evaluated[part],
            loss=self.recipe.loss,
            augment=self.augment,
            precision=self.recipe.precision,
            halt=halt,
        )
        return Measured({"loss": score.loss, "accuracy": score.accuracy}, score.right)


@dataclass
class TextObjective(Objective):
    """The cross-entropy of the next byte, in nats, and the same in bits.

    ``loss`` is the mean over all bytes in nats, without label smoothing. ``bits_per_byte`` is that
    divided by the logarithm of 2.

    Args:
        recipe: of the run.
        evaluated: what is evaluated after an epoch, by the name that metrics have.
        device: of the network.
    """

    recipe: Recipe
    evaluated: dict[str, Split]
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    counts: bool = False

    @property
    def parts(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Names of the evaluated data."""
        return tuple(self.evaluated)

    def step(self, call: Callable[..., Any], batch: Batch) -> StepLoss:
        """Return the loss of every row of a batch."""
        with in_precision(self.recipe.precision, self.device):
            outputs = call(batch.images.to(self.device).long())
        return StepLoss(row_losses(self.recipe.loss, outputs, batch.labels.to(self.device)))

    def measure(self, model: nn.Module, part: str, halt: Callable[[], None]) -> Measured:
        """Return the loss on one split in nats and in bits per byte."""
        split = self.evaluated[part]
        total = 0.0
        with evaluating(model), in_precision(self.recipe.precision, self.device):
            for start in range(0, len(split), ROWS):
                halt()
                tokens = split.images[start : start + ROWS].to(self.device).long()
                labels = split.labels[start : start + ROWS].to(self.device)
                total += float(row_losses(Loss(), model(tokens), labels).sum(dtype=torch.float64))
        nats = total / max(1, len(split))
        return Measured({"loss": nats, "bits_per_byte": nats / math.log(2)})


@dataclass(frozen=True, kw_only=True)
class ObjectiveInputs:
    """What an objective is built from.

    Attributes:
        recipe: of the run.
        augment: of the recipe, with the normalisation of the data.
        evaluated: what is evaluated after an epoch, by the name that metrics have.
        classes: of the data.
        network: what is trained.
        shape: of the images.
        device: of the network.
    """

    recipe: Recipe
    augment: Augment
    evaluated: dict[str, Split]
    classes: int
    network: nn.Module
    shape: Shape
    device: torch.device


@dataclass(frozen=True, kw_only=True)
class Task:
    """A kind of labels, such as a class for every pixel.

    Attributes:
        name: the ``task`` of data sets and the ``predicts`` of networks.
        predicts: what its networks return, in words.
        metrics: that runs have; the first is the loss.
        objective: returns the objective of a run.
        check_outputs: raises unless outputs fit the loss, for so many classes and images of that
            shape.
        mirror: returns the function that mirrors the labels of images of that shape.
        example_labels: returns labels for so many images of that shape, for timing.
    """

    name: str
    predicts: str
    metrics: tuple[str, ...]
    objective: Callable[[ObjectiveInputs], Objective]
    check_outputs: Callable[[Loss, Tensor, int, Shape], None]
    mirror: Callable[[Shape], Callable[[Tensor], Tensor]]
    example_labels: Callable[[int, Shape], Tensor]


# What the labels of runs are of, besides whole examples. See `register_task`.
_TASKS: dict[str, Task] = {}


def register_task(task: Task) -> None:
    """Add a task, for data sets and networks that name it.

    Args:
        task: the task.
    """
    _TASKS[task.name] = task


def find_task(name: str) -> Task:
    """Return the task of that name.

    Args:
        name: as data sets and networks give it.
    """
    if name not in _TASKS:
        load_extensions("tasks")
    if name not in _TASKS:
        raise unknown_addition("tasks", "task", name, _TASKS)
    return _TASKS[name]
