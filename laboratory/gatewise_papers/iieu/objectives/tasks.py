"""Segmentation and detection as tasks of runs."""

from functools import partial

from gatewise.data import DETECTION, SEGMENTATION
from gatewise.train import Objective, ObjectiveInputs, Task, register_task
from gatewise_papers.iieu.data import mirror_boxes, mirror_masks
from gatewise_papers.iieu.objectives.detection import DetectionObjective
from gatewise_papers.iieu.objectives.labelling import (
    anchors_of,
    check_dense_outputs,
    example_labels,
)
from gatewise_papers.iieu.objectives.segmentation import SegmentationObjective


def _segmentation(inputs: ObjectiveInputs) -> Objective:
    """Return the objective of segmentation."""
    return SegmentationObjective(
        inputs.recipe, inputs.augment, inputs.evaluated, inputs.classes, inputs.device
    )


def _detection(inputs: ObjectiveInputs) -> Objective:
    """Return the objective of detection."""
    return DetectionObjective(
        inputs.recipe,
        inputs.augment,
        inputs.evaluated,
        inputs.classes,
        anchors_of(inputs.network, inputs.shape),
        (inputs.shape[1], inputs.shape[2]),
        inputs.device,
    )


register_task(
    Task(
        name=SEGMENTATION,
        predicts="a class for every pixel",
        metrics=("test_loss", "test_iou", "test_accuracy"),
        objective=_segmentation,
        check_outputs=partial(check_dense_outputs, SEGMENTATION),
        mirror=lambda shape: mirror_masks,
        example_labels=partial(example_labels, SEGMENTATION),
    )
)
register_task(
    Task(
        name=DETECTION,
        predicts="boxes",
        metrics=("test_loss", "test_map"),
        objective=_detection,
        check_outputs=partial(check_dense_outputs, DETECTION),
        mirror=lambda shape: partial(mirror_boxes, width=shape[-1]),
        example_labels=partial(example_labels, DETECTION),
    )
)
