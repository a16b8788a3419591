"""Objectives of dense prediction: a class for every pixel, and boxes."""

from gatewise.train.loop.dense import tasks as tasks
from gatewise.train.loop.dense.coco_metrics import FoundObjects as FoundObjects
from gatewise.train.loop.dense.coco_metrics import TrueObjects as TrueObjects
from gatewise.train.loop.dense.coco_metrics import average_precision as average_precision
from gatewise.train.loop.dense.detection import DetectionObjective as DetectionObjective
from gatewise.train.loop.dense.labelling import anchors_of as anchors_of
from gatewise.train.loop.dense.labelling import check_dense_outputs as check_dense_outputs
from gatewise.train.loop.dense.labelling import example_labels as example_labels
from gatewise.train.loop.dense.segmentation import SegmentationObjective as SegmentationObjective
from gatewise.train.loop.dense.segmentation import confusion as confusion
