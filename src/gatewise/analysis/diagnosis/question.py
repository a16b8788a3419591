"""Questions of a diagnosis, and what the answer to one holds."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gatewise.errors import Limitation

if TYPE_CHECKING:
    from gatewise.analysis.diagnosis.context import DiagnosisContext

SURE = 0.01  # a corrected p-value below this counts as a finding

# The line of an answer for each reason why a question was not answered.
REASONS: dict[str, str] = {
    Limitation.NO_CHECKPOINTS: "Not asked: this needs two or more checkpoints that differ.",
    Limitation.NO_CONVOLUTION: "Does not apply: the model has no convolution on its input.",
    Limitation.NO_FILTERS: "Does not apply: no layer of the model has three or more filters.",
    Limitation.NO_GATES: "Does not apply: the model has no known activation function.",
    Limitation.NO_IMAGES: "Does not apply: the inputs are not images.",
    Limitation.NO_LAYER: "Does not apply: no activation function follows a layer with weights.",
    Limitation.NO_MAPS: "Does not apply: no activation function follows a convolution.",
    Limitation.NO_NUMBERS: "Does not apply: the inputs are indices, e.g. of words, and cannot be "
    "varied continuously.",
    Limitation.NO_REAL_INPUTS: "Not asked: this needs data, and the inputs are random numbers.",
    Limitation.NO_UNIT_AFTER_CONVOLUTION: "Does not apply: the model has convolutions, but no "
    "activation function follows one.",
    Limitation.NOT_CONVERGED: "Does not apply: an iterative solver did not reach its tolerance.",
    Limitation.NOT_FINITE: "Does not apply: the model computes NaN or infinity on these inputs.",
    Limitation.ON_ONE_LINE: "Does not apply: a plane needs three inputs that are not on one line.",
    Limitation.SEVERAL_INPUTS: "Does not apply: the model takes several tensors.",
    Limitation.SEVERAL_OUTPUTS: "Does not apply: the model returns several tensors.",
    Limitation.SINGULAR_KERNEL: "Does not apply: the kernel is singular.",
    Limitation.TOO_FEW_INPUTS: "Not asked: this needs more inputs.",
    Limitation.TOO_LARGE: "Not asked: this needs more memory or time than allowed.",
    Limitation.TOO_MANY_REGIONS: "Not asked: the plane has too many linear regions.",
    Limitation.UNREADABLE_MODEL: "Does not apply: PyTorch cannot trace the model.",
    Limitation.UNSUPPORTED_MODEL: "Does not apply: this analysis does not support the model.",
    Limitation.UNSUPPORTED_OPERATOR: "Does not apply: this analysis does not support an operator "
    "of the model.",
    Limitation.UNSUPPORTED_UNIT: "Does not apply: this analysis does not support an activation "
    "function of the model.",
}


@dataclass(frozen=True)
class Finding:
    """The answer to one question.

    Attributes:
        line: The answer in one or two sentences.
        facts: Plain values. The page draws them; without a section of its own for the question it
            shows them in a table.
        record: The result of the analysis itself, to plot or to work with.
    """

    line: str
    facts: dict[str, Any]
    record: Any = field(default=None)


@dataclass(frozen=True)
class Question:
    """One question of a diagnosis.

    Attributes:
        name: The name in ``diagnose(..., questions=[...])`` and in the JSON.
        title: The question in words, the heading on the page.
        answer: Computes the finding. It raises
            :class:`~gatewise.errors.NotApplicableError` if the question has no meaning for the
            model; any other exception is shown as a failure.
        reads_inputs: Whether the answer depends on the inputs, and not on the weights alone. Such
            an answer is held back if the inputs are not as in training.
        compares_checkpoints: Whether it is asked only if there are two checkpoints that differ.
        first: Whether it is asked unless other questions are named. The others are papers'
            analyses, which take longer.
    """

    name: str
    title: str
    answer: Callable[["DiagnosisContext"], Finding]
    reads_inputs: bool = True
    compares_checkpoints: bool = False
    first: bool = False
