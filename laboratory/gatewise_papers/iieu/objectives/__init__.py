"""Objectives of dense prediction: a class for every pixel, and boxes."""

from gatewise_papers.iieu.objectives import tasks as tasks
from gatewise_papers.iieu.objectives.coco_metrics import FoundObjects as FoundObjects
from gatewise_papers.iieu.objectives.coco_metrics import TrueObjects as TrueObjects
from gatewise_papers.iieu.objectives.coco_metrics import average_precision as average_precision
from gatewise_papers.iieu.objectives.detection import DetectionObjective as DetectionObjective
from gatewise_papers.iieu.objectives.labelling import anchors_of as anchors_of
from gatewise_papers.iieu.objectives.labelling import check_dense_outputs as check_dense_outputs
from gatewise_papers.iieu.objectives.labelling import example_labels as example_labels
from gatewise_papers.iieu.objectives.segmentation import (
    SegmentationObjective as SegmentationObjective,
)
from gatewise_papers.iieu.objectives.segmentation import confusion as confusion
