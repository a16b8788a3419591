"""How the convolutional network of Experiments 6 and 7 is trained at the smaller scales."""

from gatewise_papers.common import TableTraining

DESK_CNN = TableTraining(
    "cifar10",
    "deep_gated_adam",
    ("epochs = 4", "batch = 128", "optimiser.lr = 1e-3", "channels_last = true"),
    model_options={"scale": 1 / 16},
)
TINY_CNN = TableTraining(
    "digits",
    "deep_gated_adam",
    ("epochs = 1", "batch = 50"),
    {"train": 100},
    {"scale": 0.05, "size": 8},
)
