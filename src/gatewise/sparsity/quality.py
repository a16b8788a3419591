"""How good a model is with other thresholds: loss, accuracy, and how far its outputs moved."""

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gatewise.analysis import IGNORED, AnalysisResult, scores_of, summed_loss
from gatewise.batches import ModelCall
from gatewise.errors import ArgumentError


@dataclass(frozen=True)
class Quality(AnalysisResult):
    """The quality of a model on data that its thresholds do not come from.

    Attributes:
        loss: mean cross-entropy in nats, or mean squared error; ``None`` without labels.
        perplexity: the exponential of the loss, of a language model.
        accuracy: share of the labels that have the largest score.
        score: what the user's function returned.
        difference: root mean square of the change of the outputs, relative to the outputs.
        agreement: share of the predictions, the largest outputs, that are the same as before.
        predicts: what has a prediction: ``"inputs"``, or ``"places"`` where an input has several.
    """

    loss: float | None = None
    perplexity: float | None = None
    accuracy: float | None = None
    score: float | None = None
    difference: float = 0.0
    agreement: float | None = None
    predicts: str = "inputs"


class Judge:
    """Adds up the quality of one setting over batches."""

    def __init__(self) -> None:
        self.loss = 0.0
        self.labels = 0
        self.correct = 0
        self.scored = 0
        self.tokens = False
        self.changed = 0.0
        self.size = 0.0
        self.same = 0
        self.compared = 0
        self.several = False

    def add(self, batch: ModelCall, output: Any, dense: Tensor) -> None:
        """Add a batch.

        Args:
            batch: the inputs and labels.
            output: what the model returned.
            dense: the scores that the model without thresholds returned.
        """
        scores = scores_of(output)
        self.changed += float((scores.double() - dense.double()).square().sum())
        self.size += float(dense.double().square().sum())
        if scores.dim() > 1 and scores.shape[-1] > 1:
            self.same += int((scores.argmax(-1) == dense.argmax(-1)).sum())
            self.compared += scores[..., 0].numel()
            self.several = self.several or scores.dim() > 2
        if batch.labels is not None:
            self._add_labels(batch.labels, scores, output)

    def _add_labels(self, labels: Tensor, scores: Tensor, output: Any) -> None:
        total, count = summed_loss("sparsify", labels, scores, output)
        self.loss += float(total)
        self.labels += count
        self.tokens = self.tokens or (labels.dim() > 1 and not labels.is_floating_point())
        own = getattr(output, "loss", None)  # such a model may compare labels with earlier scores
        if own is None and not labels.is_floating_point():
            counted = labels != IGNORED
            self.correct += int((scores.argmax(-1) == labels)[counted].sum())
            self.scored += int(counted.sum())

    def quality(self, score: float | None = None) -> Quality:
        """Return what was added up."""
        loss = self.loss / self.labels if self.labels else None
        return Quality(
            loss=loss,
            perplexity=math.exp(min(loss, 700.0)) if loss is not None and self.tokens else None,
            accuracy=self.correct / self.scored if self.scored else None,
            score=score,
            difference=math.sqrt(self.changed / self.size) if self.size else 0.0,
            agreement=self.same / self.compared if self.compared else None,
            predicts="places" if self.several else "inputs",
        )


def checked_score(value: Any) -> float:
    """Return the result of the user's function as a number."""
    number = float(value) if isinstance(value, int | float | Tensor) else math.nan
    if isinstance(value, bool) or not math.isfinite(number):
        raise ArgumentError(
            "sparsify: evaluate must return a finite number", got=value, allowed="a number"
        )
    return number
