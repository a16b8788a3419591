"""What a question comes back with: a finding, or that it does not apply and why."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gatewise.errors import ArgumentError

if TYPE_CHECKING:
    from gatewise.analysis.diagnosis.context import Subject

# Why a question does not apply: every answer that is not one gives one of these words, and the page
# its sentence.
REASONS = {
    "no filters": "the model has no layer with three filters or more",
    "no layer": "no unit of the model follows a layer with weights",
    "no unit behind": "no unit stands behind a convolution, and of a model that has some only those are looked at",
    "no convolution": "the model has no convolution",
    "no gates": "the model has no activation that is recognised",
    "no images": "the inputs are not images",
    "no maps": "no unit stands behind a convolution, so there are no maps of the image to look at",
    "no checkpoints": "it compares moments of training, and fewer than two that differ were given",
    "no real inputs": "it is about the data, and none were given",
    "no numbers": "the inputs are indices, as of words, and cannot be moved a little",
    "several inputs": "the model takes several tensors, and the question is about one",
    "several outputs": "the model gives several tensors, and the question is about one",
    "on one line": "the inputs lie on one line, and a plane needs three that do not",
    "too few inputs": "it needs more inputs than there are",
    "too large": "it would need more memory or time than allowed",
    "refused": "the model is outside of what this question can follow",
}


class DoesNotApply(Exception):  # noqa: N818 - no error, an answer
    """A question has no meaning for this model and these inputs.

    ``reason`` is a word of :data:`REASONS`.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(REASONS[reason])
        self.reason, self.detail = reason, detail


@dataclass(frozen=True)
class Finding:
    """The answer to one question."""

    line: str  # in one line
    facts: dict[str, Any]  # plain values: what the page draws
    record: Any = None  # the analysis' own record


@dataclass(frozen=True)
class Question:
    """One question of a diagnosis."""

    name: str
    title: str
    answer: Callable[["Subject"], Finding]


def reason_of(problem: Exception) -> tuple[str, str]:
    """The word for an analysis' refusal, and its own message."""
    if isinstance(problem, DoesNotApply):
        return problem.reason, problem.detail
    text = str(problem)
    if "memory" in text:
        return "too large", text
    if "must not lie on one line" in text:
        return "on one line", text
    return "refused", text


def is_refusal(problem: Exception) -> bool:
    """Whether the question cannot be asked of this model, rather than gone wrong."""
    return isinstance(problem, DoesNotApply | ArgumentError)
