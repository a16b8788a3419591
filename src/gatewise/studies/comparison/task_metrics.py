"""Metrics of a task over batches: those computed here, and any others through torchmetrics."""

import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gatewise.errors import ArgumentError, MissingExtraError
from gatewise.studies.comparison.tasks import (
    BINARY,
    CLASSES,
    LABELS,
    MODEL_LOSS,
    NEXT_TOKEN,
    NUMBERS,
    PIXELS,
    TOKENS,
    Aligned,
)
from gatewise.train import mean_iou

# The metrics of each task. The first one is judged unless the user names another.
DEFAULTS: dict[str, tuple[str, ...]] = {
    CLASSES: ("accuracy", "loss"),
    BINARY: ("accuracy", "loss"),
    LABELS: ("f1", "accuracy", "loss"),
    NUMBERS: ("mse", "mae", "loss"),
    NEXT_TOKEN: ("loss", "perplexity"),
    TOKENS: ("accuracy", "loss"),
    PIXELS: ("iou", "accuracy", "loss"),
    MODEL_LOSS: ("loss",),
}
COUNTED = (CLASSES, BINARY, LABELS, TOKENS, NEXT_TOKEN, PIXELS)
# Names of torchmetrics that differ from ours.
LIBRARY_NAMES = {
    "f1": "F1Score",
    "auc": "AUROC",
    "auroc": "AUROC",
    "map": "AveragePrecision",
    "iou": "JaccardIndex",
    "miou": "JaccardIndex",
    "mcc": "MatthewsCorrCoef",
    "balanced_accuracy": "Accuracy",
    "top5": "Accuracy",
    "rmse": "MeanSquaredError",
    "mape": "MeanAbsolutePercentageError",
    "pearson": "PearsonCorrCoef",
    "spearman": "SpearmanCorrCoef",
}
LIBRARY_OPTIONS: dict[str, dict[str, Any]] = {
    "top5": {"top_k": 5, "average": "micro"},
    "rmse": {"squared": False},
}
AVERAGED = ("F1Score", "Precision", "Recall", "AUROC", "AveragePrecision", "JaccardIndex")


class TaskMetrics:
    """Adds up what the metrics of a task need, batch by batch.

    Args:
        task: its name.
        wanted: names of the metrics, beginning with the judged one.
        outputs: classes, labels or numbers for each row; 1 for a binary task.
        ignored: the target that does not count.
    """

    def __init__(self, task: str, wanted: Sequence[str], outputs: int, ignored: int) -> None:
        self.task = task
        self.wanted = wanted
        self.outputs = outputs
        self.ignored = ignored
        self.rows = 0
        self.losses = 0.0
        self.loss_rows = 0
        self.sums: dict[str, Tensor] = {}
        self.library: dict[str, Any] = {}
        for name in wanted:
            if name not in NATIVE.get(task, {}):
                self.library[name] = library_metric(task, name, outputs)

    def add(self, aligned: Aligned | None, loss: float, examples: int) -> None:
        """Take in a batch.

        Args:
            aligned: outputs and targets; None if only the loss is known.
            loss: the mean of the batch.
            examples: in the batch.
        """
        rows = examples
        if aligned is not None:
            outputs = aligned.outputs.detach().float().cpu()
            targets = aligned.targets.detach().cpu()
            if self.task in (CLASSES, TOKENS, NEXT_TOKEN, PIXELS):
                counted = targets != self.ignored
                outputs, targets = outputs[counted], targets[counted]
                rows = len(targets)
            self._add_sums(outputs, targets)
            for metric in self.library.values():
                _update(metric, self.task, outputs, targets)
        self.losses += loss * rows
        self.loss_rows += rows

    def values(self) -> dict[str, float]:
        """Return the metrics by name, in the order in which they were asked for."""
        values = {}
        for name in self.wanted:
            if name in self.library:
                values[name] = float(self.library[name].compute())
            else:
                values[name] = NATIVE[self.task][name](self)
        return values

    def loss(self) -> float:
        """Return the mean loss."""
        return self.losses / max(1, self.loss_rows)

    def ratio(self, above: str, below: str) -> float:
        """Return the ratio of two sums; NaN for nothing."""
        total = float(self.sums[below].sum()) if below in self.sums else 0.0
        if total:
            return float(self.sums[above].sum()) / total
        return math.nan

    def _add_sums(self, outputs: Tensor, targets: Tensor) -> None:
        """Add up counts or squares."""
        if self.task == NUMBERS:
            difference = outputs.double() - targets.double()
            wide = targets.double()
            self._sum("count", torch.tensor(float(difference.numel())))
            self._sum("squares", difference.square().sum())
            self._sum("absolute", difference.abs().sum())
            self._sum("columns", wide.new_full((), float(len(wide))))
            self._sum("target", wide.sum(0))
            self._sum("target_squares", wide.square().sum(0))
            self._sum("column_squares", difference.square().sum(0))
            return
        if self.task in (BINARY, LABELS):
            guesses = (outputs > 0).long()
            truth = (targets > 0.5).long()
            columns = 1 if self.task == BINARY else outputs.shape[1]
            guesses_by, truth_by = guesses.reshape(-1, columns), truth.reshape(-1, columns)
            self._sum("hit", (guesses_by * truth_by).sum(0).double())
            self._sum("guessed", guesses_by.sum(0).double())
            self._sum("true", truth_by.sum(0).double())
        else:
            guesses = outputs.argmax(1)
            truth = targets
            if "iou" in self.wanted:
                pairs = torch.bincount(truth * self.outputs + guesses, minlength=self.outputs**2)
                self._sum("confusion", pairs.double())
        right = guesses == truth
        self._sum("right", right.sum().double())
        self._sum("count", torch.tensor(float(right.numel())))

    def _sum(self, name: str, value: Tensor) -> None:
        """Add to a sum."""
        self.sums[name] = self.sums[name] + value if name in self.sums else value


def _f1(metrics: TaskMetrics) -> float:
    """Return the mean over labels of 2 hits over guessed plus true; a label without either is 0."""
    sums = metrics.sums
    both = sums["guessed"] + sums["true"]
    return float((2 * sums["hit"] / both.clamp(min=1)).mean())


def _iou(metrics: TaskMetrics) -> float:
    """Return the mean over classes that occur of intersection over union."""
    if metrics.task in (BINARY, LABELS):
        sums = metrics.sums
        union = sums["guessed"] + sums["true"] - sums["hit"]
        return float(torch.where(union > 0, sums["hit"] / union.clamp(min=1), 1.0).mean())
    return mean_iou(metrics.sums["confusion"].reshape(metrics.outputs, metrics.outputs))


def _r2(metrics: TaskMetrics) -> float:
    """Return the mean over outputs of 1 minus the share of variance that is left."""
    sums = metrics.sums
    spread = sums["target_squares"] - sums["target"].square() / sums["columns"]
    return float((1 - sums["column_squares"] / spread).mean())


def _accuracy(metrics: TaskMetrics) -> float:
    """Return the share of right answers."""
    return metrics.ratio("right", "count")


def _perplexity(metrics: TaskMetrics) -> float:
    """Return e to the loss; infinite if that is too large."""
    loss = metrics.loss()
    return math.exp(loss) if loss < 700 else math.inf


Native = Callable[[TaskMetrics], float]
_LOSSES: dict[str, Native] = {"loss": TaskMetrics.loss}
_COUNTS: dict[str, Native] = {
    **_LOSSES,
    "accuracy": _accuracy,
    "error": lambda metrics: 1 - _accuracy(metrics),
}
_TEXT: dict[str, Native] = {
    **_COUNTS,
    "nats": TaskMetrics.loss,
    "bits": lambda metrics: metrics.loss() / math.log(2),
    "perplexity": _perplexity,
}
NATIVE: dict[str, dict[str, Native]] = {
    CLASSES: _COUNTS,
    BINARY: {**_COUNTS, "f1": _f1, "iou": _iou},
    LABELS: {**_COUNTS, "f1": _f1, "iou": _iou},
    NUMBERS: {
        **_LOSSES,
        "mse": lambda metrics: metrics.ratio("squares", "count"),
        "rmse": lambda metrics: math.sqrt(metrics.ratio("squares", "count")),
        "mae": lambda metrics: metrics.ratio("absolute", "count"),
        "r2": _r2,
    },
    NEXT_TOKEN: _TEXT,
    TOKENS: _TEXT,
    PIXELS: {**_COUNTS, "iou": _iou},
    MODEL_LOSS: _LOSSES,
}


def library_metric(task: str, name: str, outputs: int) -> Any:
    """Return a metric of torchmetrics.

    Args:
        task: its name.
        name: such as ``"auroc"`` or ``"cohen_kappa"``.
        outputs: classes, labels or numbers for each row.

    Raises:
        ArgumentError: if there is no such metric for the task.
        MissingExtraError: if torchmetrics is not installed.
    """
    known = ", ".join(NATIVE.get(task, {}))
    if task == MODEL_LOSS:
        raise ArgumentError(
            "metric: a model that returns its loss is judged by it",
            got=name,
            allowed=known,
            fix="give evaluate=my_evaluate, or say task=",
        )
    kind = "regression" if task == NUMBERS else "classification"
    try:
        module = importlib.import_module(f"torchmetrics.{kind}")
    except Exception as problem:  # an installation that does not fit torch raises other errors
        raise MissingExtraError(
            f"metric: {name} is computed by torchmetrics, which cannot be imported",
            got=f"{type(problem).__name__}: {problem}".split("\n")[0],
            allowed=known,
            fix="choose another metric, or install a torchmetrics that can be imported",
        ) from problem
    prefix, options = _library_form(task, outputs)
    camel = "".join(word[:1].upper() + word[1:] for word in name.split("_"))
    short = LIBRARY_NAMES.get(name, camel)
    for candidate in (prefix + short, prefix + camel):
        found = getattr(module, candidate, None)
        if isinstance(found, type):
            averaged = {"average": "macro"} if prefix == "Multiclass" and short in AVERAGED else {}
            return _make(found, {**options, **averaged, **LIBRARY_OPTIONS.get(name, {})}, name)
    raise ArgumentError(
        f"metric: neither gatewise nor torchmetrics has it for {task}",
        got=name,
        allowed=f"{known}, or a name of torchmetrics.{kind}",
        fix="give evaluate=my_evaluate, which returns it",
    )


def _library_form(task: str, outputs: int) -> tuple[str, dict[str, Any]]:
    """Return how classes of torchmetrics for a task begin, and their options."""
    if task == NUMBERS:
        return "", {}
    if task == BINARY:
        return "Binary", {}
    if task == LABELS:
        return "Multilabel", {"num_labels": outputs}
    return "Multiclass", {"num_classes": outputs}


def _make(metric: type, options: dict[str, Any], name: str) -> Any:
    """Make the metric, or raise an error that names it."""
    try:
        return metric(**options)
    except (TypeError, ValueError) as problem:
        raise ArgumentError(
            f"metric: {name} cannot be made", got=str(problem).split("\n")[0]
        ) from problem


def _update(metric: Any, task: str, outputs: Tensor, targets: Tensor) -> None:
    """Give a metric of torchmetrics probabilities and targets, or numbers."""
    if task == NUMBERS:
        flat = outputs.shape[1:] == (1,)
        metric.update(outputs[:, 0] if flat else outputs, targets[:, 0] if flat else targets)
    elif task in (BINARY, LABELS):
        metric.update(outputs.sigmoid(), (targets > 0.5).long())
    else:
        metric.update(outputs.softmax(1), targets)
