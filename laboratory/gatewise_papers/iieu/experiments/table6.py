"""Table 6: detection with RetinaNet on a ResNet."""

from functools import partial

from gatewise_papers.common import Experiment, TableTraining
from gatewise_papers.iieu.experiments import published
from gatewise_papers.iieu.experiments.dense import (
    DensePrediction,
    DenseSettings,
    dense_cells,
    dense_configurations,
    dense_findings,
)

TABLE = DensePrediction(
    model="retinanet",
    metric="map",
    metrics={
        "map": "mean average precision",
        "ap50": "average precision at overlap 0.5",
        "ap75": "average precision at overlap 0.75",
        "ap_small": "average precision, small objects",
        "ap_medium": "average precision, medium objects",
        "ap_large": "average precision, large objects",
    },
    published=published.DETECTION,
    parameters=published.DETECTION_PARAMETERS,
    better=published.DETECTION_BETTER,
    as_printed=published.DETECTION_AS_PRINTED,
    frozen=("backbone.features.stem", "backbone.features.stage1"),
    notes=(
        "parameters are without those of the stem and the first stage, which MMDetection's default "
        "freezes: only so the network with ReLU has the 37.7 million that are printed",
        "losses are divided by the anchors of objects in each image, not in the batch; "
        "the last layers of the heads alone start small",
    ),
)
FULL = DenseSettings(
    TableTraining("coco_detection", "retinanet_1x", evaluate_every=12),
    reduced="backbones from random weights instead of ImageNet's, with batch norm in training; "
    "images in squares of 1,344 pixels, the longer side scaled to it",
    published=True,
)
DESK = DenseSettings(
    TableTraining(
        "shapes_detection",
        "adam",
        data_options={"size": 48},
        changes=("epochs = 16", "batch = 8", "optimiser.lr = 2e-3", "augment.flip = true"),
        model_options={
            "scale": 0.125,
            "width": 32,
            "levels": 3,
            "convolutions": 2,
            "stem_stride": 2,
        },
        evaluate_every=8,
    ),
    depth=26,
    reduced="1,000 drawn images of 48 pixels instead of COCO, ResNet-26 at an eighth of the width, "
    "three levels of 32 channels, 16 epochs",
)
TINY = DenseSettings(
    TableTraining(
        "shapes_detection",
        "adam",
        data_options={"train": 16, "test": 8, "size": 32},
        changes=("epochs = 1", "batch = 8", "optimiser.lr = 2e-3"),
        model_options={
            "scale": 0.0625,
            "width": 8,
            "levels": 3,
            "convolutions": 1,
            "stem_stride": 2,
        },
    ),
    depth=14,
    networks=("ReLU", "IIEU-B"),
    control=False,
    reduced="16 drawn images of 32 pixels, ResNet-14 at a sixteenth of the width, two networks, "
    "1 epoch",
)
EXPERIMENT = Experiment(
    name="iieu/table6",
    title="detection with a ResNet with each activation",
    scales={"tiny": TINY, "desk": DESK, "full": FULL},
    cells=partial(dense_cells, TABLE),
    findings=partial(dense_findings, TABLE),
    trainings=partial(dense_configurations, TABLE),
    levels=TABLE.levels,
    seeds=8,  # the paper does not say how many
)
