"""How the convolutional network of Experiments 6 and 7 is trained at the smaller scales."""

from gatewise_papers.common import TableTraining

DESK_CNN = TableTraining(
    "cifar10",
    "deep_gated_adam",
    ("epochs = 30", "batch = 128", "channels_last = true", 'precision = "auto"'),
    model_options={"scale": 1 / 8},
)
REDUCED = (
    "at one learning rate, the paper's 3e-4; an eighth of the width, 30 epochs, batches of 128"
)
TINY_CNN = TableTraining(
    "digits",
    "deep_gated_adam",
    ("epochs = 1", "batch = 50"),
    {"train": 100},
    {"scale": 0.05, "size": 8},
)
