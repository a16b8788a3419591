"""The loss and the metrics of detection: focal loss, offsets of boxes, and average precision."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.data import Augment, Split
from gatewise.train import Measured, Objective, Recipe, StepLoss, evaluating, in_precision
from gatewise.train.loop import Batch
from gatewise_papers.iieu.data import BOX, CLASS, CROWD, NO_OBJECT, SCALE
from gatewise_papers.iieu.networks import box_iou, box_offsets, moved_boxes, suppress
from gatewise_papers.iieu.objectives.coco_metrics import (
    FoundObjects,
    TrueObjects,
    average_precision,
    need_coco_tools,
)

SIZE = 16  # images evaluated at once; fixed, because last bits may depend on it
OFFSETS = 4  # numbers of a box, after the scores of its classes
# Of RetinaNet: an anchor is an object's from this overlap on, and background below the other.
OBJECT_FROM, BACKGROUND_BELOW = 0.5, 0.4
BACKGROUND, BETWEEN = -1, -2
ALPHA, GAMMA = 0.25, 2.0  # of the focal loss
LEAST_SCORE = 0.05
MOST_CANDIDATES = 1000
MOST_FOUND = 100
OVERLAP = 0.5  # of boxes of one class that are both kept


def match_anchors(anchors: Tensor, boxes: Tensor) -> Tensor:
    """Return for every anchor the place of its object, ``BACKGROUND`` or ``BETWEEN``.

    An anchor belongs to the object that it overlaps most, if by 0.5 or more. Besides, the anchors
    that overlap an object most belong to it, however little. Anchors with 0.4 to 0.5 do not count.

    Args:
        anchors: (a, 4).
        boxes: (n, 4), of the objects of one image.
    """
    if not len(boxes):
        return torch.full((len(anchors),), BACKGROUND, device=anchors.device)
    overlaps = box_iou(boxes, anchors)
    best, place = overlaps.max(0)
    matched = torch.where(best >= OBJECT_FROM, place, BETWEEN)
    matched = torch.where(best < BACKGROUND_BELOW, BACKGROUND, matched)
    highest = overlaps.max(1, keepdim=True).values
    nearest = (overlaps == highest) & (highest > 0)
    for number in range(len(boxes)):
        matched = torch.where(nearest[number], number, matched)
    return matched


def focal_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the focal loss of every logit: cross-entropy that counts little where it is small.

    Args:
        logits: of any shape.
        targets: 0 or 1, in the same shape.
    """
    scores = logits.sigmoid()
    wrong = torch.where(targets > 0, 1 - scores, scores)
    weight = torch.where(targets > 0, ALPHA, 1 - ALPHA) * wrong**GAMMA
    return weight * F.binary_cross_entropy_with_logits(logits, targets, reduction="none")


def detection_loss(outputs: Tensor, labels: Tensor, anchors: Tensor) -> Tensor:
    """Return the loss of one image: focal loss and absolute errors of offsets.

    Both are sums over anchors, divided by the number of anchors that belong to an object.

    Args:
        outputs: (anchors, classes + 4), of the network.
        labels: (rows, 8); see Note [Labels of boxes].
        anchors: (anchors, 4).
    """
    outputs = outputs.float()
    objects = labels[(labels[:, CLASS] != NO_OBJECT) & (labels[:, CROWD] == 0)]
    matched = match_anchors(anchors, objects[:, BOX])
    found = matched >= 0
    logits, offsets = outputs[:, :-OFFSETS], outputs[:, -OFFSETS:]
    targets = torch.zeros_like(logits)
    own = objects[matched[found]]
    targets[found, own[:, CLASS].long()] = 1
    counted = matched != BETWEEN
    scores = focal_losses(logits[counted], targets[counted]).sum()
    wanted = box_offsets(own[:, BOX], anchors[found])
    return (scores + (offsets[found] - wanted).abs().sum()) / found.sum().clamp(min=1)


def detect(outputs: Tensor, anchors: Tensor, height: int, width: int) -> FoundObjects:
    """Return the objects that the outputs of one image say.

    Args:
        outputs: (anchors, classes + 4), of the network.
        anchors: (anchors, 4).
        height: of the image.
        width: of the image.
    """
    outputs = outputs.float()
    scores = outputs[:, :-OFFSETS].sigmoid()
    classes = scores.shape[1]
    best, places = scores.flatten().topk(min(MOST_CANDIDATES, scores.numel()))
    places, best = places[best > LEAST_SCORE], best[best > LEAST_SCORE]
    anchor, kind = places // classes, places % classes
    boxes = moved_boxes(outputs[anchor, -OFFSETS:], anchors[anchor])
    largest = boxes.new_tensor([width, height, width, height])
    boxes = torch.minimum(boxes.clamp(min=0), largest)
    kept = suppress(boxes, best, kind, overlap=OVERLAP)[:MOST_FOUND]
    return FoundObjects(boxes[kept], best[kept], kind[kept])


@dataclass
class DetectionObjective(Objective):
    """The loss of RetinaNet; after an epoch the average precision of COCO.

    Args:
        recipe: of the run.
        augment: of the recipe, with the normalisation of the data.
        evaluated: what is evaluated after an epoch, by the name that metrics have.
        classes: of the data.
        anchors: of the network, for images of the data.
        size: height and width of the images.
        device: of the network.
    """

    recipe: Recipe
    augment: Augment
    evaluated: dict[str, Split]
    classes: int
    anchors: Tensor
    size: tuple[int, int]
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    counts: bool = False

    def __post_init__(self) -> None:
        if self.evaluated:
            need_coco_tools()
        self.anchors = self.anchors.to(self.device)

    @property
    def parts(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Names of the evaluated data."""
        return tuple(self.evaluated)

    def step(self, call: Callable[..., Any], batch: Batch) -> StepLoss:
        """Return the loss of every image of a batch."""
        with in_precision(self.recipe.precision, self.device):
            outputs = call(self.recipe.placed(batch.images, self.device))
        return StepLoss(self._losses(outputs, batch.labels.to(self.device)))

    def measure(self, model: nn.Module, part: str, halt: Callable[[], None]) -> Measured:
        """Return loss and average precisions on one split."""
        split = self.evaluated[part]
        total = 0.0
        truth: list[TrueObjects] = []
        found: list[FoundObjects] = []
        with evaluating(model):
            for start in range(0, len(split), SIZE):
                halt()
                images = self.augment.plain(split.images[start : start + SIZE])
                labels = split.labels[start : start + SIZE]
                with in_precision(self.recipe.precision, self.device):
                    outputs = model(self.recipe.placed(images, self.device))
                total += float(
                    self._losses(outputs, labels.to(self.device)).sum(dtype=torch.float64)
                )
                for each, objects in zip(outputs, labels, strict=True):
                    # In pixels of the published image, whose areas decide what is small.
                    scale = float(objects[0, SCALE])
                    truth.append(TrueObjects.of(objects, scale))
                    found.append(detect(each, self.anchors, *self.size).scaled(1 / scale))
        metrics = average_precision(truth, found, self.classes)
        return Measured({"loss": total / max(1, len(split)), **metrics})

    def _losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of every image, (n,)."""
        losses = []
        for each, objects in zip(outputs, labels, strict=True):
            losses.append(detection_loss(each, objects, self.anchors))
        return torch.stack(losses)
