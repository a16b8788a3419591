"""What depends on the kind of labels: examples, and the outputs that fit them."""

import torch
from torch import Tensor, nn

from gatewise.data import DETECTION, SEGMENTATION
from gatewise.errors import ArgumentError
from gatewise.train.config import Loss
from gatewise_papers.iieu.data import AREA, BOX, CLASS, COLUMNS, SCALE


def example_labels(task: str, count: int, shape: tuple[int, ...]) -> Tensor:
    """Return labels of dense prediction, for timing: class 0, or one box in each image.

    Args:
        task: of the data.
        count: number of images.
        shape: of the images.
    """
    height, width = shape[-2:]
    if task == SEGMENTATION:
        return torch.zeros(count, height, width, dtype=torch.uint8)
    labels = torch.zeros(count, 1, COLUMNS)
    labels[..., BOX] = torch.tensor([width // 4, height // 4, width // 2, height // 2]).float()
    labels[..., CLASS] = 0
    labels[..., AREA] = (width // 4) * (height // 4)
    labels[..., SCALE] = 1
    return labels


def anchors_of(network: nn.Module, shape: tuple[int, ...]) -> Tensor:
    """Return the boxes that the outputs of a network are counted from, (anchors, 4).

    Args:
        network: has a method ``anchors(height, width)``.
        shape: of the images.

    Raises:
        ArgumentError: if it has none.
    """
    anchors = getattr(network, "anchors", None)
    if not callable(anchors):
        raise ArgumentError(
            "model: a network for detection needs a method anchors(height, width)",
            got=type(network).__name__,
            allowed="as retinanet has it",
        )
    found = anchors(*shape[-2:])
    if not isinstance(found, Tensor) or found.dim() != 2 or found.shape[1] != 4:
        raise ArgumentError(
            "model: anchors(height, width) must return boxes", got=found, allowed="(anchors, 4)"
        )
    return found


def check_dense_outputs(
    task: str, loss: Loss, outputs: Tensor, classes: int, read: tuple[int, ...]
) -> None:
    """Check that the outputs fit the loss and the labels.

    Args:
        task: of the data.
        loss: of the recipe.
        outputs: of the network for some images.
        classes: of the data.
        read: the shape of one image.

    Raises:
        ArgumentError: if they do not.
    """
    if loss.name != "cross_entropy" or (task == DETECTION and loss.label_smoothing):
        raise ArgumentError(
            f"recipe: this loss does not go with {task}",
            got=f"{loss.name}, label_smoothing {loss.label_smoothing:g}",
            allowed="cross_entropy" + (" without label smoothing" if task == DETECTION else ""),
        )
    if task == SEGMENTATION:
        fits = outputs.shape[1:] == (classes, *read[1:])
        allowed = f"(N, {classes}, {read[1]}, {read[2]})"
    else:
        fits = outputs.dim() == 3 and outputs.shape[2] == classes + 4
        allowed = f"(N, anchors, {classes + 4})"
    if not fits:
        raise ArgumentError(
            f"model: these outputs do not go with {task} of {classes} classes",
            got=f"shape {tuple(outputs.shape)}",
            allowed=allowed,
        )
