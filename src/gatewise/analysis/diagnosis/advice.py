"""Advice from findings: what to do, the numbers it is based on, and the command."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gatewise.analysis.diagnosis.context import DiagnosisContext
from gatewise.analysis.diagnosis.question import SURE, Finding
from gatewise.analysis.diagnosis.saving import crelu_savings
from gatewise.analysis.diagnosis.words import (
    joined,
    layer_name,
    layer_names,
    p_value,
    percentage,
    plural,
    sentence_start,
    signed,
)
from gatewise.analysis.record import AnalysisResult
from gatewise.graph import node_operations, parameter_count

PAIRED = -0.5  # a mean correlation this low is worth a change,
CLEAR = 0.1  # if it is this much below that of random filters
OPPOSITE = -0.98  # two filters this opposite are one filter and its negative
LOST = 0.1  # a share of the image that CReLU would keep and ReLU loses
DEAD = 0.02  # a share of dead channels that is worth advice
ENOUGH = 30  # inputs: a channel that is dead on fewer may well fire on the next
ALIKE = 0.98  # two filters with this cosine are almost the same
SATURATED = 0.9  # a share of the channels: such a soft unit computes what a hard one does
LIKE_RELU = {"silu", "gelu", "swish", "mish"}  # while their gates are saturated
CHEAP = {"relu", "leaky_relu", "abs", "relu6"}
EXPENSIVE = 0.2  # a share of the forward time that is worth advice


@dataclass(frozen=True)
class Advice(AnalysisResult):
    """One recommendation.

    Attributes:
        text: What to do, and why.
        evidence: The numbers it is based on.
        command: How to do it.
        question: The question whose finding it is based on.
    """

    text: str
    evidence: str
    command: str
    question: str


@dataclass(frozen=True)
class Case:
    """What advice is based on.

    Attributes:
        findings: The findings by the name of the question.
        context: The model.
        reference: How a command names the model, with its options.
    """

    findings: Mapping[str, Finding]
    context: DiagnosisContext
    reference: str

    def swap(self, unit: str, sites: Sequence[str], *options: str, out: str) -> str:
        """Return the command that replaces the units at some sites.

        Args:
            unit: The new unit.
            sites: The names of the sites.
            options: More options of ``gatewise swap``.
            out: The name of the file that is written.
        """
        where = [word for site in sites for word in ("--where", site)]
        words = ["--unit", unit, *options, *where, "--out", out]
        return f"gatewise swap {self.reference} {shlex.join(words)}"


Rule = Callable[[Case, Mapping[str, Any]], Advice | None]


def advise(case: Case) -> tuple[Advice, ...]:
    """Return all advice that the findings support."""
    advice = []
    for question, rule in RULES:
        if question in case.findings:
            advice.append(rule(case, case.findings[question].facts))
    return tuple(item for item in advice if item is not None)


def _on_opposite_filters(case: Case, facts: Mapping[str, Any]) -> Advice | None:
    """CReLU at half width, where a layer has opposite filters: it needs one filter of each pair."""
    reading = case.context.reading
    by_layer = {row["layer"]: row for row in facts["layers"] if _has_opposite_filters(row)}
    savings = crelu_savings(reading, by_layer)
    if not savings:
        return None
    rows = [by_layer[saving.layer] for saving in savings]
    parameters = sum(saving.parameters for saving in savings)
    operations = sum(saving.operations for saving in savings)
    all_operations = sum(map(node_operations, reading.graph))
    mean = _total(rows, "mean") / len(rows)
    random = _total(rows, "chance_mean") / len(rows)
    layers = layer_names(saving.layer for saving in savings)
    has, its = ("has", "its") if len(rows) == 1 else ("have", "their")
    text = (
        f"{sentence_start(layers)} {has} opposite filters: "
        f"average correlation {signed(mean)}; random filters give {signed(random)}. "
        f"Replace {its} ReLU by CReLU at half width to save "
        f"{percentage(operations / all_operations)} of the compute and "
        f"{parameters:,} of {parameter_count(case.context.model):,} parameters."
    )
    sites = [saving.site for saving in savings]
    command = case.swap("crelu", sites, "--width", "half", out="crelu.safetensors")
    return Advice(text, "; ".join(map(_opposite_evidence, rows)), command, "pairing")


def _has_opposite_filters(row: Mapping[str, Any]) -> bool:
    """Whether filters are far more opposite than random ones, and more opposite than alike.

    Filters near a few directions are as opposite, but also as alike.
    """
    limit = min(PAIRED, row["chance_mean"] - CLEAR)
    unlike_random = row["p_corrected"] < SURE and row["mean"] < limit
    return unlike_random and row["p_phases_corrected"] < SURE


def _opposite_evidence(row: Mapping[str, Any]) -> str:
    """Return both comparisons for one layer: with random filters, and with random signs."""
    return (
        f"{row['layer']}: {signed(row['mean'])}, random filters {signed(row['chance_mean'])}, "
        f"{p_value(row['p_corrected'])}; {signed(row['similar_mean'])} with the most similar, "
        f"{p_value(row['p_phases_corrected'])} with random signs"
    )


def _on_exact_opposites(case: Case, facts: Mapping[str, Any]) -> Advice | None:
    """Merge filters that are each other's negative, which leaves the function as it is."""
    counts: dict[str, int] = {}
    for row in facts["layers"]:
        count = sum(value is not None and value < OPPOSITE for value in row["correlation"])
        if count > 1:
            counts[row["layer"]] = count
    if not counts:
        return None
    most = max(counts, key=lambda layer: counts[layer])
    text = (
        f"{plural(sum(counts.values()), 'filter')} of {layer_names(counts)} are almost exact "
        "opposites of another. Merge each pair into one filter with CReLU."
    )
    evidence = (
        f"{most}: {plural(counts[most], 'filter')} with a cosine below {signed(OPPOSITE)} to "
        "another filter"
    )
    return Advice(text, evidence, "gw.merge_pairs(model, example, tolerance=0.02)", "pairing")


def _on_lost_image(case: Case, facts: Mapping[str, Any]) -> Advice | None:
    """CReLU, where ReLU loses much of the image after the first layer."""
    pooled = "_pooled" if facts["pooled"] else ""
    relu = facts["ratios"][f"relu{pooled}"]
    crelu = facts["ratios"][f"crelu{pooled}"]
    layer = facts["layer"]
    # Another unit may lose less than ReLU, which the ratios do not say.
    sites = [site for site in case.context.graph if layer in site.producers and site.op == "relu"]
    if not sites or relu - crelu < LOST:
        return None
    steps = ", ReLU and pooling" if facts["pooled"] else " and ReLU"
    text = (
        f"After {layer_name(layer)}{steps}, {percentage(relu)} of the image cannot be rebuilt; "
        f"with CReLU, {percentage(crelu)}. `--preserve` swaps in CReLU without changing the "
        "network's outputs."
    )
    evidence = (
        f"|x - x'| / |x| over {plural(facts['images'], 'image')}: {relu:.3f} with ReLU, "
        f"{crelu:.3f} with CReLU"
    )
    options = ("--width", "same", "--preserve")
    command = case.swap("crelu", [sites[0].name], *options, out="crelu.safetensors")
    return Advice(text, evidence, command, "reconstruction")


def _on_similar_filters(case: Case, facts: Mapping[str, Any]) -> Advice | None:
    """Fewer or orthogonal filters, where two are almost the same."""
    # The cosine of opposite filters is as large; the advice on those is to merge them.
    opposite = _most_opposite(case)
    similar: dict[str, float] = {}
    for row in facts["layers"]:
        coherence = row["coherence"]
        if coherence > ALIKE and coherence > opposite.get(row["name"], 0) + 1e-3:
            similar[row["name"]] = coherence
    if not similar:
        return None
    most = max(similar, key=lambda name: similar[name])
    text = (
        f"Some filters of {layer_names(similar)} are almost the same. Use fewer, or initialise "
        "them orthogonally."
    )
    evidence = f"{most}: the largest |cosine| between two filters is {similar[most]:.4f}"
    return Advice(text, evidence, "gw.orthogonalize(model)", "orthogonality")


def _most_opposite(case: Case) -> dict[str, float]:
    """Return how opposite the most opposite filters of each layer are: those have other advice."""
    if "pairing" not in case.findings:
        return {}
    most: dict[str, float] = {}
    for row in case.findings["pairing"].facts["layers"]:
        known = (-value for value in row["correlation"] if value is not None)
        most[row["layer"]] = max(known, default=0.0)
    return most


def _on_dead_channels(case: Case, facts: Mapping[str, Any]) -> Advice | None:
    """Leaky ReLU, where channels never fire and so get no gradient either."""
    # Other units pass a gradient where they are off.
    sites = [site for site in facts["sites"] if site["unit"] == "relu" and site["dead"]]
    dead = sum(len(site["dead"]) for site in sites)
    channels = _total(facts["sites"], "channels")
    if dead < DEAD * channels or facts["inputs"] < ENOUGH:
        return None
    sites.sort(key=lambda site: len(site["dead"]) / site["channels"], reverse=True)
    fires, them, they = ("fires", "it", "it") if dead == 1 else ("fire", "them", "they")
    text = (
        f"{dead:,} of {channels:,} channels never {fires} on {facts['inputs']:,} inputs, and ReLU "
        f"gives {them} no gradient. Use leaky ReLU so that {they} can learn again, or remove "
        f"{them}."
    )
    names = []
    evidence = []
    for site in sites:
        names.append(site["site"])
        evidence.append(f"{site['site']}: {len(site['dead'])} of {site['channels']}")
    command = case.swap("leaky_relu", names, out="leaky.safetensors")
    return Advice(text, "; ".join(evidence[:5]), command, "gates")


def _on_saturated_gates(case: Case, facts: Mapping[str, Any]) -> Advice | None:
    """ReLU, where soft gates are almost always 0 or 1: it computes the same for less."""
    names = []
    evidence = []
    for site in facts["sites"]:
        name = site["site"]
        saturated = site.get("saturated") or 0
        if site["unit"] in LIKE_RELU and saturated > SATURATED * site["channels"]:
            names.append(name)
            evidence.append(f"{name}: {saturated} of {site['channels']} saturated")
    if not names:
        return None
    text = (
        f"The soft gates of {joined(names)} are almost always 0 or 1. Use ReLU there: it computes "
        "the same for less."
    )
    command = case.swap("relu", names, out="relu.safetensors")
    return Advice(text, "; ".join(evidence[:5]), command, "gates")


def _on_cost(case: Case, facts: Mapping[str, Any]) -> Advice | None:
    """A comparison with ReLU, where other units take much of the time."""
    sites = [site for site in facts["sites"] if site["unit"] not in CHEAP and site["share"] > 0]
    share = _total(sites, "share")
    if share < EXPENSIVE:
        return None
    units = sorted({site["unit"] for site in sites})
    takes = "takes" if len(units) == 1 else "take"
    text = (
        f"{joined(units)} {takes} {percentage(share)} of the forward time, in "
        f"{plural(len(sites), 'place')}. Check whether ReLU is as accurate."
    )
    seconds = _total(sites, "seconds")
    inputs = plural(facts["inputs"], "input")
    evidence = f"{seconds:.3g} s of {facts['seconds']:.3g} s for {inputs}"
    return Advice(text, evidence, f"gatewise plan {case.reference} --unit relu", "cost")


def _total(rows: Sequence[Mapping[str, Any]], key: str) -> float:
    return sum(row[key] for row in rows)


# The question whose finding a rule reads, and the rule, in the order of the advice.
RULES: Sequence[tuple[str, Rule]] = (
    ("pairing", _on_opposite_filters),
    ("gates", _on_dead_channels),
    ("gates", _on_saturated_gates),
    ("pairing", _on_exact_opposites),
    ("reconstruction", _on_lost_image),
    ("orthogonality", _on_similar_filters),
    ("cost", _on_cost),
)
