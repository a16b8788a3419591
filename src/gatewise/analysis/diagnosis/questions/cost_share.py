"""The question which share of time and memory the activation functions take."""

from gatewise.analysis.costs import cost
from gatewise.analysis.diagnosis.context import DiagnosisContext
from gatewise.analysis.diagnosis.question import Finding, Question
from gatewise.analysis.diagnosis.words import percentage
from gatewise.graph import example_tensors, node_operations, parameter_count, split_example
from gatewise.words import number

REPEATS = 3
SLOW = 2e10  # operations: a larger example is measured with fewer inputs, and once
LARGE = 50_000_000  # parameters, whose gradients are not computed


def _answer(context: DiagnosisContext) -> Finding:
    """Measure time and memory of the model, and the share of its units."""
    size = len(next(example_tensors(split_example(context.inputs.example))))
    operations = sum(map(node_operations, context.reading.graph))
    slow = operations > SLOW
    rows = max(1, int(size * SLOW / operations)) if slow else size
    measured = cost(
        context.model,
        context.inputs.first_rows(rows),
        repeats=1 if slow else REPEATS,
        training=parameter_count(context.model) <= LARGE,
    )
    millions = measured.operations / measured.inputs / 1e6
    words = f"{millions:,.0f}" if millions >= 1000 else number(millions, 4)
    time = percentage(min(1.0, measured.site_share))
    line = f"Activation functions take {time} of the forward time"
    if measured.saved_bytes:
        saved = sum(site.saved_bytes or 0 for site in measured.sites)
        line += f" and {percentage(saved / measured.saved_bytes)} of the memory for backward"
    line += (
        f". The model needs {words} million operations per input and computes "
        f"{number(measured.throughput, 3)} inputs per second here."
    )
    return Finding(line, measured.to_dict() | {"site_share": measured.site_share}, measured)


COST = Question(
    "cost", "What do the activation functions cost?", _answer, reads_inputs=False, first=True
)
