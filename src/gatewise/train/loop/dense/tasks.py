"""Segmentation and detection as tasks of runs."""

from functools import partial

from gatewise.data import DETECTION, SEGMENTATION, mirror_boxes, mirror_masks
from gatewise.train.loop.dense.detection import DetectionObjective
from gatewise.train.loop.dense.labelling import anchors_of, check_dense_outputs, example_labels
from gatewise.train.loop.dense.segmentation import SegmentationObjective
from gatewise.train.loop.objective import Objective, ObjectiveInputs, Task, register_task


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
