"""Runs of a fraction of a second, in the kinds that differ in what must survive an interruption."""

from gatewise.train.config import RunConfig, read_recipe, run_config

RECIPES = {
    "dropout": """
        epochs = 3
        batch = 16
        optimiser = { name = "nesterov", lr = 0.05 }
        schedule = { name = "cosine", warmup = 1 }
        weight_decay = { value = 1e-3 }
    """,
    "augmentation": """
        epochs = 3
        batch = 16
        optimiser = { name = "adam", lr = 1e-3 }
        augment = { shift = 1, rotation = 10.0 }
    """,
    "mixed precision": """
        epochs = 3
        batch = 16
        optimiser = { name = "rmsprop", lr = 1e-3 }
        precision = "bfloat16"
        ema = 0.9
        clip = 1.0
        loss = { name = "cross_entropy", label_smoothing = 0.1 }
    """,
    "half precision": """
        epochs = 3
        batch = 16
        optimiser = { name = "radam", lr = 1e-2, options = { betas = [0.8, 0.99] } }
        precision = "float16"
        channels_last = true
        clip = 1.0
    """,
}
MODELS = {
    "dropout": {
        "model": "convpool_cnn",
        "unit": "crelu",
        "model_options": {"scale": 0.04, "dropout": True},
    },
    "augmentation": {"model": "small_cnn", "unit": "swish", "model_options": {"widths": [4, 8]}},
    "mixed precision": {
        "model": "small_cnn",
        "unit": "iieu_b",
        "model_options": {"widths": [4, 8]},
    },
    "half precision": {"model": "small_cnn", "unit": "gelu", "model_options": {"widths": [4, 8]}},
}
KINDS = tuple(RECIPES)
# What must be the same of two runs of one configuration.
SAME = (
    "status",
    "steps",
    "metrics",
    "best",
    "weights_sha256",
    "state_sha256",
    "metrics_sha256",
    "config_sha256",
)
EXAMPLES = 97  # six batches of 16 and one left over


def small_run(kind: str = "augmentation", *changes: str, **values: object) -> RunConfig:
    recipe = read_recipe(RECIPES[kind], changes=changes)
    return run_config(
        **{"data_options": {"train": EXAMPLES}, "recipe": recipe, "evaluate_every": 3}
        | MODELS[kind]
        | values
    )
