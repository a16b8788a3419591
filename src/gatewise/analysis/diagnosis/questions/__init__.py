"""The questions of a diagnosis.

To add one, write a file with a :class:`~gatewise.analysis.diagnosis.question.Question` and list it
here. It then appears in the JSON and on the page. Other packages add theirs with :func:`ask`.
"""

from collections.abc import Mapping
from types import MappingProxyType

from gatewise.analysis.diagnosis.question import Question
from gatewise.analysis.diagnosis.questions.complexity import COMPLEXITY
from gatewise.analysis.diagnosis.questions.cost_share import COST
from gatewise.analysis.diagnosis.questions.counts import CountedFinding as CountedFinding
from gatewise.analysis.diagnosis.questions.counts import alike_at as alike_at
from gatewise.analysis.diagnosis.questions.counts import counted_findings as counted_findings
from gatewise.analysis.diagnosis.questions.counts import gate_counts as gate_counts
from gatewise.analysis.diagnosis.questions.gate_activity import GATES, INVARIANCE, OVERLAP
from gatewise.analysis.diagnosis.questions.maps import KERNEL, TEMPLATES
from gatewise.analysis.diagnosis.questions.reconstruction import RECONSTRUCTION
from gatewise.analysis.diagnosis.questions.regions import PARTITION
from gatewise.analysis.diagnosis.questions.sites import SITES
from gatewise.analysis.diagnosis.questions.tails import TAILS
from gatewise.analysis.diagnosis.questions.training import FILM, FLIPS
from gatewise.analysis.diagnosis.questions.weights import ORTHOGONALITY, PAIRING, PRIOR
from gatewise.extensions import load_extensions

# In the order of the page.
_ALL = (
    SITES,
    GATES,
    TAILS,
    OVERLAP,
    PAIRING,
    RECONSTRUCTION,
    INVARIANCE,
    ORTHOGONALITY,
    PRIOR,
    TEMPLATES,
    PARTITION,
    FLIPS,
    FILM,
    KERNEL,
    COMPLEXITY,
    COST,
)
QUESTIONS: dict[str, Question] = {question.name: question for question in _ALL}


def all_questions() -> Mapping[str, Question]:
    """Return all questions by name, with those of installed extensions. It is read-only."""
    load_extensions("questions")
    return MappingProxyType(QUESTIONS)


def ask(question: Question) -> None:
    """Add a question to every diagnosis.

    Args:
        question: the question. Questions are asked in the order in which they were added.
    """
    QUESTIONS[question.name] = question
