"""The question where the activation functions are."""

from collections import Counter

from gatewise.analysis.diagnosis.context import DiagnosisContext
from gatewise.analysis.diagnosis.question import Finding, Question
from gatewise.analysis.diagnosis.words import joined, plural
from gatewise.errors import Limitation, NotApplicableError
from gatewise.graph import known_activations


def _answer(context: DiagnosisContext) -> Finding:
    """List the activations of the model with the layers before and after each."""
    graph = context.graph
    if not len(graph):
        raise NotApplicableError(Limitation.NO_GATES, "; ".join(graph.notes))
    counts = Counter(site.op for site in graph)
    rows = []
    for site in graph:
        row = {
            "name": site.name,
            "op": site.op,
            "kind": site.kind,
            "role": site.role,
            "channels": site.channels,
            "producers": list(site.producers),
            "consumers": list(site.consumers),
        }
        rows.append(row)
    operators = joined([f"{count} {op}" for op, count in counts.items()], 5)
    line = f"{plural(len(graph), 'activation layer')}: {operators}."
    as_written = known_activations(graph.notes)
    if as_written:
        line += f" Written out in the code, and no site: {joined(as_written)}."
    return Finding(line, {"sites": rows, "notes": list(graph.notes)}, graph)


SITES = Question(
    "sites", "Where are the activation functions?", _answer, reads_inputs=False, first=True
)
