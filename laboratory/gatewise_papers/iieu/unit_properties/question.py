"""The question which properties the units of the model have, and how similar IIEU's inputs are."""

from collections import Counter
from typing import Any

from gatewise.analysis import ask
from gatewise.analysis.diagnosis import DiagnosisContext, Finding, Question
from gatewise.analysis.gating import unit_calls
from gatewise.errors import Limitation, NotApplicableError
from gatewise.units import registered_units
from gatewise.words import joined
from gatewise_papers.iieu.unit_properties.facts import properties
from gatewise_papers.iieu.unit_properties.term_s import term_s_range

INPUTS = 200  # on which similarities are measured


def _answer(context: DiagnosisContext) -> Finding:
    """Decide the properties of every unit that the model uses."""
    counts = _unit_counts(context)
    if not counts:
        raise NotApplicableError(Limitation.NO_GATES)
    rows = []
    left_out = []
    for name, sites in counts.items():
        try:
            rows.append({"unit": name, "sites": sites, **properties(name).to_dict()})
        except NotApplicableError as problem:
            left_out.append(f"{name}: {problem}")
    if not rows:
        raise NotApplicableError(Limitation.UNSUPPORTED_UNIT, "; ".join(left_out))
    facts: dict[str, Any] = {"units": rows, "left_out": left_out}
    if "iieu_b" in counts and context.inputs.real:
        similarity = term_s_range(context.model, context.inputs.first_pairs(INPUTS))
        facts["term_s"] = similarity.to_dict()["units"]
    return Finding(_line(rows), facts)


def _unit_counts(context: DiagnosisContext) -> dict[str, int]:
    """Return how often each unit of the catalogue is called in the model."""
    calls = unit_calls(context.reading.graph, context.model)
    inside = {call.scope[0] for call in calls}
    counts: Counter[str] = Counter()
    for site in context.graph:
        if site.op in registered_units() and site.path not in inside:
            counts[site.op] += 1
    counts.update(call.unit for call in calls)
    return dict(counts)


def _line(rows: list[dict[str, Any]]) -> str:
    """Return which properties each unit lacks."""
    sentences = []
    for row in rows:
        missing = [item["name"] for item in row["properties"] if not item["holds"]]
        if missing:
            verb = f"lacks: {joined(missing)}"
        else:
            verb = f"has all {len(row['properties'])} properties"
        sentences.append(f"{row['unit']} (used {row['sites']:,} times) {verb}.")
    return " ".join(sentences)


PROPERTIES = Question(
    "properties",
    "Which properties do the activation functions have?",
    _answer,
    reads_inputs=False,
)
ask(PROPERTIES)
