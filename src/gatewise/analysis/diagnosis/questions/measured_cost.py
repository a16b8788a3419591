"""The question of cost: which share of time and memory is the nonlinearities'."""

from gatewise.analysis.costs import cost
from gatewise.analysis.diagnosis.context import Subject
from gatewise.analysis.diagnosis.finding import Finding
from gatewise.analysis.diagnosis.inputs import first_of
from gatewise.analysis.diagnosis.words import share

INPUTS = 16  # in the example that is timed
REPEATS = 3


def ask_cost(subject: Subject) -> Finding:
    """What do the nonlinearities cost?"""
    found = cost(subject.model, first_of(subject.inputs.batches[0], INPUTS), repeats=REPEATS)
    facts = found.to_dict() | {"site_share": found.site_share}
    text = f"{found.operations / found.inputs / 1e6:,.4g} million operations an input, {found.throughput:,.0f} inputs "
    text += f"a second here; units take {share(min(1.0, found.site_share))} of the forward time"
    if found.saved_bytes:
        kept = sum(each.saved_bytes or 0 for each in found.sites)
        text += f" and {share(kept / found.saved_bytes)} of the bytes kept for backward"
    return Finding(f"{text}.", facts, found)
