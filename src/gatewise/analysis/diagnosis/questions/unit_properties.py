"""The question of the units themselves.

Which properties those of the model have, and how similar IIEU's inputs are.
"""

from typing import Any

from gatewise.analysis.diagnosis.context import Subject
from gatewise.analysis.diagnosis.finding import DoesNotApply, Finding
from gatewise.analysis.diagnosis.words import few, plural
from gatewise.analysis.gating import term_s_range, unit_calls
from gatewise.analysis.unit_properties import properties
from gatewise.errors import GatewiseError
from gatewise.units import registered_units

BATCHES = 2  # of inputs that similarities are measured on


def ask_properties(subject: Subject) -> Finding:
    """Which properties do the units of the model have?"""
    names = _units(subject)
    if not names:
        raise DoesNotApply("no gates")
    rows, left_out = [], []
    for name, sites in names.items():
        try:
            rows.append({"unit": name, "sites": sites, **properties(name).to_dict()})
        except GatewiseError as problem:
            left_out.append(f"{name}: {problem.args[0]}")
    facts: dict[str, Any] = {"units": rows, "left_out": left_out}
    if "iieu_b" in names and subject.inputs.real:
        facts["term_s"] = term_s_range(subject.model, subject.inputs.pairs[:BATCHES]).to_dict()[
            "units"
        ]
    if not rows:
        raise DoesNotApply("no gates", "; ".join(left_out))
    return Finding(_line(rows), facts, None)


def _units(subject: Subject) -> dict[str, int]:
    """How many sites each unit of the catalogue has in the model."""
    found: dict[str, int] = {}
    inside = {call.scope[0] for call in unit_calls(subject.reading.graph, subject.model)}
    named = [
        site.op
        for site in subject.graph
        if site.op in registered_units() and site.path not in inside
    ]
    for name in [*named, *(call.unit for call in unit_calls(subject.reading.graph, subject.model))]:
        found[name] = found.get(name, 0) + 1
    return found


def _line(rows: list[dict[str, Any]]) -> str:
    parts = []
    for row in rows:
        lacking = [each["name"] for each in row["properties"] if not each["holds"]]
        has = (
            f"has all {len(row['properties'])} properties"
            if not lacking
            else f"lacks {few(lacking)}"
        )
        parts.append(f"{row['unit']} ({plural(row['sites'], 'site')}) {has}")
    return f"{'; '.join(parts)}."
