"""What sparsify returns: the sparse model, its curves and its receipt."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from gatewise.analysis import AnalysisResult
from gatewise.sparsity.quality import Quality
from gatewise.sparsity.thresholds import CLOSE, Counts, Place, Thresholds
from gatewise.sparsity.timing import Timing
from gatewise.words import joined, plural

FORMAT = "gatewise sparsity 1"


@dataclass(frozen=True)
class LayerSparsity(AnalysisResult):
    """How sparse the numbers at one place are, on data that its threshold does not come from.

    Attributes:
        layer: path of the linear layer that reads them, or of the gate.
        kind: ``"input"`` of a linear layer, or ``"gate"``.
        width: numbers for each token.
        weights: that need not be read where the numbers are zero.
        threshold: numbers of at most this magnitude count as small; ``None`` for zeros only.
        zeros: share of exact zeros, before any threshold.
        sparsity: share of small numbers, with thresholds at all places.
        by_token: 10 %, 50 % and 90 % quantile of that share over the tokens.
    """

    layer: str
    kind: str
    width: int
    weights: int
    threshold: float | None
    zeros: float
    sparsity: float
    by_token: tuple[float, float, float]


def layer_rows(
    places: Iterable[Place], counts: Counts, zeros: Counts, thresholds: Thresholds
) -> tuple[LayerSparsity, ...]:
    """Return one row for each place that was reached.

    Args:
        places: of the model.
        counts: of small numbers.
        zeros: of exact zeros before any threshold.
        thresholds: by place.
    """
    rows = []
    for place in places:
        if place.name in counts.numbers:
            rows.append(
                LayerSparsity(
                    layer=place.name,
                    kind=place.kind,
                    width=place.width,
                    weights=place.weights,
                    threshold=thresholds.get(place.name),
                    zeros=zeros.zero_share(place.name),
                    sparsity=counts.small_share(place.name),
                    by_token=counts.by_token(place.name),
                )
            )
    return tuple(rows)


@dataclass(frozen=True)
class LayerTime(AnalysisResult):
    """The time of a linear layer on one row.

    Attributes:
        layer: its path.
        dense_seconds: without a threshold.
        sparse_seconds: without the weights of small inputs.
        skips: whether the sparse model skips weights: only where that is faster than to multiply
            by the whole matrix after the threshold.
    """

    layer: str
    dense_seconds: float
    sparse_seconds: float
    skips: bool

    @property
    def pays(self) -> bool:
        """Whether the layer is faster than without a threshold."""
        return self.skips and self.sparse_seconds < self.dense_seconds


@dataclass(frozen=True)
class CurvePoint(AnalysisResult):
    """The quality at one target.

    Attributes:
        target: the share of small numbers that thresholds were calibrated to.
        sparsity: the share that was measured, weighted by the weights that need not be read.
        quality: of the model.
    """

    target: float
    sparsity: float
    quality: Quality


@dataclass(frozen=True)
class Stage(AnalysisResult):
    """A stage of a fine-tuning.

    Attributes:
        penalty: weight of the penalty on activations at its end.
        steps: of training.
        loss: mean training loss, without the penalty.
        zeros: mean share of zeros in training.
    """

    penalty: float
    steps: int
    loss: float
    zeros: float


@dataclass(frozen=True)
class FineTuning(AnalysisResult):
    """How a model was trained after its activations were replaced.

    Attributes:
        unit: in place of the activations.
        shift: of a shifted ReLU; 0 for others.
        epochs: over the training data.
        lr: learning rate at the start.
        stages: one for each weight of the penalty.
        untrained: quality after the replacement, before training.
        seconds: of training.
        activations: how many were replaced.
        norms: how many norms have ReLU after them.
    """

    unit: str
    shift: float
    epochs: int
    lr: float
    stages: tuple[Stage, ...]
    untrained: Quality
    seconds: float
    activations: int
    norms: int = 0

    @property
    def steps(self) -> int:
        """Steps of all stages."""
        return sum(stage.steps for stage in self.stages)


@dataclass(frozen=True)
class Sparsified(AnalysisResult):
    """The receipt of :func:`gatewise.sparsify` or :func:`gatewise.sparsity.relufy`. Print it.

    Attributes:
        model: the model with thresholds.
        target: the share of small numbers that was asked for.
        method: ``"input"``, ``"gate"`` or ``"relu"``.
        layers: one row for each place with a threshold.
        sparsity: the mean share of small numbers, weighted by weights.
        unweighted: the same without weights.
        skipped: share of the weights of all linear layers that one row does not read.
        before: quality without thresholds.
        after: quality with thresholds.
        curve: quality at several targets, thresholds at all places.
        layer_curves: the same with a threshold at one place only, by place.
        times: of the layers that can skip weights.
        timing: of the whole model.
        left: layers that stay as they are, with the reason.
        tokens: measured at each place.
        notes: sentences on what does not hold or does not pay.
        training: how it was trained; ``None`` if it was not.
    """

    model: nn.Module = field(repr=False)
    target: float
    method: str
    layers: tuple[LayerSparsity, ...]
    sparsity: float
    unweighted: float
    skipped: float
    before: Quality
    after: Quality
    curve: tuple[CurvePoint, ...]
    layer_curves: Mapping[str, tuple[CurvePoint, ...]]
    times: tuple[LayerTime, ...]
    timing: Timing | None
    left: Mapping[str, str]
    tokens: int
    notes: tuple[str, ...]
    training: FineTuning | None = None

    _omitted = ("model",)
    _properties = ("reached",)
    _finite = True

    @property
    def reached(self) -> bool:
        """Whether the sparsity is within 2 % of the target, or above it."""
        return self.sparsity >= self.target - CLOSE

    @property
    def thresholds(self) -> dict[str, float | None]:
        """The threshold of each place."""
        return {row.layer: row.threshold for row in self.layers}

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the model as plain values."""
        return {"format": FORMAT, **super().to_dict()}

    def __str__(self) -> str:
        count = len(self.layers)
        places = plural(count, "gate") if self.method == "gate" else _inputs(count)
        zeros = sum(row.zeros * row.weights for row in self.layers)
        weights = sum(row.weights for row in self.layers)
        lines = [
            f"{places} with a threshold: {self.sparsity:.1%} of the numbers are zero "
            f"(target {self.target:.1%}, exact zeros before {zeros / max(1, weights):.1%})",
            f"one row reads {1 - self.skipped:.1%} of the weights of all linear layers",
            *quality_lines(self.before, self.after),
        ]
        if self.training is not None:
            lines[:1] = [
                f"{_replaced_words(self.training)}: {self.sparsity:.1%} of the {_inputs(count)} "
                f"are zero (exact zeros before {zeros / max(1, weights):.1%})",
                _training_line(self.training),
            ]
        if self.timing is not None:
            lines.append(_time_line(self.timing))
        if self.left:
            lines += left_lines(self.left, "left dense" if self.training is None else "unchanged")
        return "\n".join([*lines, *self.notes])


def left_lines(left: Mapping[str, str], state: str) -> list[str]:
    """Return a line for each reason why layers stay as they are."""
    by_reason: dict[str, list[str]] = {}
    for path, why in left.items():
        by_reason.setdefault(why, []).append(path)
    return [f"{joined(paths, most=4)}: {state} ({why})" for why, paths in by_reason.items()]


def quality_lines(before: Quality, after: Quality) -> list[str]:
    """Return what thresholds cost, in words."""
    words = []
    for name in ("loss", "perplexity", "accuracy", "score"):
        old = getattr(before, name)
        new = getattr(after, name)
        if old is not None and new is not None:
            words.append(f"{name} {old:.4g} to {new:.4g}")
    if after.agreement is not None:
        words.append(f"same prediction at {after.agreement:.1%} of the {after.predicts}")
    words.append(f"outputs moved by {after.difference:.3g} of their size")
    return [", ".join(words)]


def _replaced_words(training: FineTuning) -> str:
    words = f"{training.unit} in place of {plural(training.activations, 'activation')}"
    return words + (f", ReLU after {plural(training.norms, 'norm')}" if training.norms else "")


def _inputs(count: int) -> str:
    return f"inputs of {plural(count, 'linear layer')}"


def _training_line(training: FineTuning) -> str:
    untrained = training.untrained.loss
    words = "" if untrained is None else f"; loss {untrained:.4g} before training"
    return f"trained for {plural(training.steps, 'step')} in {training.seconds:.3g} s{words}"


def _time_line(timing: Timing) -> str:
    dense = f"{timing.dense_seconds * 1e3:.3g} ms"
    sparse = f"{timing.sparse_seconds * 1e3:.3g} ms"
    threads = "1 thread" if timing.threads == 1 else f"{timing.threads} threads"
    return (
        f"time for {timing.what} {dense} to {sparse} (x {timing.ratio:.2f}, {threads}, "
        f"{timing.zeros:.1%} of the numbers in it zero): {timing.verdict}"
    )
