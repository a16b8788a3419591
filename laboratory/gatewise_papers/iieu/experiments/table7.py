"""Table 7: segmentation of materials with a ResNet and an all-MLP decoder."""

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
    model="resnet_segmenter",
    metric="iou",
    metrics={"iou": "mean IoU"},
    published=published.MATERIALS,
    parameters=published.MATERIALS_PARAMETERS,
    better=published.MATERIALS_BETTER,
    as_printed=published.MATERIALS_AS_PRINTED,
)
FULL = DenseSettings(
    TableTraining("kitti_materials", "materials_adamw", evaluate_every=10),
    reduced="backbones from random weights instead of ImageNet's, one rate for all layers, "
    "flips alone, no class weights",
    published=True,
)
DESK = DenseSettings(
    TableTraining(
        "shapes_segmentation",
        "adam",
        data_options={"size": 48},
        changes=("epochs = 16", "batch = 8", "optimiser.lr = 3e-3", "augment.flip = true"),
        model_options={"scale": 0.125, "width": 32, "stem_stride": 2},
        evaluate_every=4,
    ),
    depth=26,
    reduced="1,000 drawn images of 48 pixels instead of KITTI-Materials, ResNet-26 at an eighth of "
    "the width, 16 epochs",
)
TINY = DenseSettings(
    TableTraining(
        "shapes_segmentation",
        "adam",
        data_options={"train": 16, "test": 8, "size": 32},
        changes=("epochs = 1", "batch = 8", "optimiser.lr = 3e-3"),
        model_options={"scale": 0.0625, "width": 8, "stem_stride": 2},
    ),
    depth=14,
    networks=("ReLU", "IIEU-B"),
    reduced="16 drawn images of 32 pixels, ResNet-14 at a sixteenth of the width, two networks, "
    "1 epoch",
)
EXPERIMENT = Experiment(
    name="iieu/table7",
    title="segmentation with a ResNet with each activation",
    scales={"tiny": TINY, "desk": DESK, "full": FULL},
    cells=partial(dense_cells, TABLE),
    findings=partial(dense_findings, TABLE),
    trainings=partial(dense_configurations, TABLE),
    levels=TABLE.levels,
    seeds=8,  # the paper does not say how many
)
