"""The loss and the metrics of segmentation: cross-entropy of pixels and mean IoU."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.data import Augment, Split
from gatewise.train import Measured, Objective, Recipe, StepLoss, evaluating, in_precision, mean_iou
from gatewise.train.config import Loss
from gatewise.train.loop import Batch
from gatewise_papers.iieu.data import IGNORED

SIZE = 16  # images evaluated at once; fixed, because last bits may depend on it


def pixel_losses(loss: Loss, outputs: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross-entropy over the pixels of each image that count, in float32.

    Shape: ``(N, K, H, W), (N, H, W) -> (N,)``.
    """
    labels = labels.long()
    losses = F.cross_entropy(
        outputs.float(),
        labels,
        ignore_index=IGNORED,
        label_smoothing=loss.label_smoothing,
        reduction="none",
    )
    counted = (labels != IGNORED).flatten(1).sum(1)
    return losses.flatten(1).sum(1) / counted.clamp(min=1)


@dataclass
class SegmentationObjective(Objective):
    """The cross-entropy of pixels; after an epoch the mean IoU and the share of right pixels.

    Args:
        recipe: of the run.
        augment: of the recipe, with the normalisation of the data.
        evaluated: what is evaluated after an epoch, by the name that metrics have.
        classes: of the data.
        device: of the network.
    """

    recipe: Recipe
    augment: Augment
    evaluated: dict[str, Split]
    classes: int
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    counts: bool = False

    @property
    def parts(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Names of the evaluated data."""
        return tuple(self.evaluated)

    def step(self, call: Callable[..., Any], batch: Batch) -> StepLoss:
        """Return the loss of every image of a batch."""
        with in_precision(self.recipe.precision, self.device):
            outputs = call(self.recipe.placed(batch.images, self.device))
        return StepLoss(pixel_losses(self.recipe.loss, outputs, batch.labels.to(self.device)))

    def measure(self, model: nn.Module, part: str, halt: Callable[[], None]) -> Measured:
        """Return mean IoU, share of right pixels and loss on one split."""
        split = self.evaluated[part]
        total = 0.0
        table = torch.zeros(self.classes, self.classes, dtype=torch.int64)
        with evaluating(model), in_precision(self.recipe.precision, self.device):
            for start in range(0, len(split), SIZE):
                halt()
                images = self.augment.plain(split.images[start : start + SIZE])
                labels = split.labels[start : start + SIZE]
                outputs = model(self.recipe.placed(images, self.device)).float().cpu()
                losses = pixel_losses(self.recipe.loss, outputs, labels)
                total += float(losses.sum(dtype=torch.float64))
                table += confusion(outputs.argmax(1), labels, self.classes)
        return Measured(
            {
                "loss": total / max(1, len(split)),
                "iou": mean_iou(table),
                "accuracy": float(table.diagonal().sum() / table.sum().clamp(min=1)),
            }
        )


def confusion(guesses: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Return how many pixels of each class (rows) were predicted as each class (columns).

    Args:
        guesses: the predicted classes.
        labels: the classes, in the same shape; pixels of class ``IGNORED`` are left out.
        classes: how many there are.
    """
    counted = labels != IGNORED
    pairs = labels[counted].long() * classes + guesses[counted]
    return pairs.bincount(minlength=classes**2).view(classes, classes)
