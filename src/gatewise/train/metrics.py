"""Names of metrics, and whether higher or lower values are better: the one table of the library."""

from typing import Literal

from torch import Tensor

from gatewise.errors import ArgumentError

Mode = Literal["max", "min"]

# The part of the data that a metric was measured on; it does not change the direction.
PREFIXES = ("test_", "val_", "valid_", "validation_", "held_", "train_", "eval_")
# Shares of 1: shown in per cent, and their differences in points.
SHARES = (
    "accuracy",
    "acc",
    "balanced_accuracy",
    "top1",
    "top5",
    "precision",
    "recall",
    "f1",
    "f1_macro",
    "f1_micro",
    "auc",
    "auroc",
    "average_precision",
    "map",
    "iou",
    "miou",
    "dice",
)
HIGHER_IS_BETTER = (*SHARES, "r2", "psnr", "ssim", "bleu", "rouge")
LOWER_IS_BETTER = (
    "loss",
    "nll",
    "cross_entropy",
    "nats",
    "bits",
    "bits_per_byte",
    "bpb",
    "bpc",
    "bpd",
    "perplexity",
    "ppl",
    "error",
    "mse",
    "rmse",
    "mae",
    "mape",
    "wer",
    "cer",
    "fid",
)
MODES: dict[str, Mode] = {
    **dict.fromkeys(HIGHER_IS_BETTER, "max"),
    **dict.fromkeys(LOWER_IS_BETTER, "min"),
}


def metric_mode(name: str, mode: str | None = None) -> Mode:
    """Return ``"max"`` if higher values of a metric are better, ``"min"`` if lower ones are.

    Args:
        name: of the metric. A prefix such as ``test_`` or ``val_`` and the case do not matter.
        mode: the direction, if it is known; needed for a name that is not in the table.

    Raises:
        ArgumentError: if the name is unknown and ``mode`` is not given.

    >>> metric_mode("test_accuracy"), metric_mode("val_loss"), metric_mode("reward", "max")
    ('max', 'min', 'max')
    """
    if not isinstance(name, str) or not name:
        raise ArgumentError("metric: a name is needed", got=name, allowed="such as 'accuracy'")
    if mode is not None:
        if mode == "max":
            return "max"
        if mode == "min":
            return "min"
        raise ArgumentError("mode: not a direction", got=mode, allowed="'max' or 'min'")
    direction = MODES.get(bare_metric(name))
    if direction is None:
        raise ArgumentError(
            "metric: it is not known whether higher or lower values are better",
            got=name,
            allowed=", ".join(sorted(MODES)),
            fix='say mode="max" or mode="min"',
        )
    return direction


def bare_metric(name: str) -> str:
    """Return the name in lower case, without the part of the data that it was measured on."""
    bare = name.lower().replace("-", "_").replace(" ", "_")
    for prefix in PREFIXES:
        if bare.startswith(prefix) and len(bare) > len(prefix):
            return bare.removeprefix(prefix)
    return bare


def mean_iou(table: Tensor) -> float:
    """Return the mean over classes of intersection over union.

    Classes that neither occur nor are predicted are left out.

    Args:
        table: how many pixels of each class (rows) were predicted as each class (columns).
    """
    hit = table.diagonal().double()
    union = table.sum(0) + table.sum(1) - hit
    return float((hit / union.clamp(min=1))[union > 0].mean())
