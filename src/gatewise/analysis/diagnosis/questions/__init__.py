"""The questions of a diagnosis.

To add one, write a file with a :class:`~gatewise.analysis.diagnosis.question.Question` and list it
here. It then appears in ``gatewise diagnose --help``, in the JSON and on the page.
"""

from gatewise.analysis.diagnosis.question import Question
from gatewise.analysis.diagnosis.questions.complexity import COMPLEXITY
from gatewise.analysis.diagnosis.questions.cost_share import COST
from gatewise.analysis.diagnosis.questions.counts import CountedFinding as CountedFinding
from gatewise.analysis.diagnosis.questions.counts import counted_findings as counted_findings
from gatewise.analysis.diagnosis.questions.gate_activity import GATES, INVARIANCE, OVERLAP
from gatewise.analysis.diagnosis.questions.maps import KERNEL, TEMPLATES
from gatewise.analysis.diagnosis.questions.reconstruction import RECONSTRUCTION
from gatewise.analysis.diagnosis.questions.regions import PARTITION
from gatewise.analysis.diagnosis.questions.sites import SITES
from gatewise.analysis.diagnosis.questions.training import FILM, FLIPS
from gatewise.analysis.diagnosis.questions.unit_properties import PROPERTIES
from gatewise.analysis.diagnosis.questions.weights import ORTHOGONALITY, PAIRING, PRIOR

# In the order of the page.
_ALL = (
    SITES,
    GATES,
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
    PROPERTIES,
    COST,
)
QUESTIONS: dict[str, Question] = {question.name: question for question in _ALL}
