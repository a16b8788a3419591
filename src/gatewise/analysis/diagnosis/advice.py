"""Advice from findings: what to do, what it saves or gains, how sure that is, and the command.

Note [Which advice]. Savings are shares of the compute or of the parameters of the whole network, or
of its time. A saving below :data:`FLOOR` is not worth a change and is not advised. Savings come
first, the largest first, then gains of another kind, then hints with weak evidence. At most
:data:`MOST` are given. Advice that reads the inputs is held back if the inputs are suspect.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gatewise.analysis.diagnosis.context import DiagnosisContext
from gatewise.analysis.diagnosis.question import SURE, Finding
from gatewise.analysis.diagnosis.questions import gate_counts
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
from gatewise.units import registered_units
from gatewise.words import MINUS

MOST = 3  # pieces of advice
FLOOR = 0.01  # a share of the network's compute or parameters that is worth a change
PAIRED = -0.5  # a mean correlation this low is worth a change,
CLEAR = 0.1  # if it is this much below that of random filters
VERY_SURE = 0.001  # a corrected p-value below this is strong evidence
TOLERANCE = 0.02  # of `merge_pairs`: the sine of the angle between a filter and the negative
OPPOSITE = -((1 - TOLERANCE**2) ** 0.5)  # the cosine of such filters
LOST = 0.1  # a difference of the reconstruction error that is worth advice
DEAD = 0.02  # a share of dead channels that is worth advice
ENOUGH = 30  # inputs: a channel that is dead on fewer may well fire on the next
FAIR_INPUTS = 300  # inputs on which a channel that fires on 1 % of them is almost never silent
STRONG_INPUTS = 1000
SELDOM = 0.1  # a mean firing rate below this
SELDOM_SHARE = 0.05  # of the compute, spent for gates that are seldom open
ALIKE = 0.98  # two filters with this cosine are almost the same
SATURATED = 0.9  # a share of the channels: such a soft unit computes almost what a hard one does
LIKE_RELU = {"silu", "gelu", "swish", "mish"}  # while their gates are saturated
CHEAP = {"relu", "leaky_relu", "abs", "relu6"}
EXPENSIVE = 0.2  # a share of the forward time that is worth advice
STRONG, FAIR, WEAK = "strong", "fair", "weak"
SAVING, GAIN = "saving", "gain"


@dataclass(frozen=True)
class Advice(AnalysisResult):
    """One recommendation.

    Attributes:
        title: What was found, in a few words.
        effect: The size of what it saves or gains, e.g. ``−2.8 %``.
        effect_of: What the size is of.
        text: What to do, and why.
        evidence: The numbers it is based on.
        strength: ``"strong"``, ``"fair"`` or ``"weak"``: how sure the evidence is.
        command: How to do it.
        question: The question whose finding it is based on.
        layers: The names of the layers that it is about.
        kind: ``"saving"`` or ``"gain"``.
        size: The saving or gain as a number, by which advice is ordered.
    """

    title: str
    effect: str
    effect_of: str
    text: str
    evidence: str
    strength: str
    command: str
    question: str
    layers: tuple[str, ...]
    kind: str
    size: float


class Commands:
    """How advice and pages name a call: as Python. The command line has its own."""

    def swap(
        self, unit: str, where: Sequence[str], *, dry_run: bool = False, **options: Any
    ) -> str:
        """Return the call that replaces the units at some sites, and at no other.

        Args:
            unit: The new unit.
            where: What selects the sites.
            dry_run: Whether the change is only planned.
            **options: More arguments of :func:`gatewise.swap`.
        """
        function = "plan" if dry_run else "swap"
        return _call(f"{function}(model, {unit!r}, x", where=list(where), **options)

    def diagnose(self, **options: Any) -> str:
        """Return the call that diagnoses the same model again.

        Args:
            **options: Arguments of :func:`gatewise.diagnose`.
        """
        return _call("diagnose(model, batches", **options)

    def revive(self) -> str:
        """Return the call that gives dead units new weights."""
        return "gw.revive(model, x)"

    def gates(self) -> str:
        """Return the call that lists what each channel does."""
        return "gw.gates(model, batches)"

    def merge_pairs(self) -> str:
        """Return the call that merges pairs of filters that are each other's negative."""
        return "gw.surgery.merge_pairs(model, x, tolerance=1e-5)"

    def fuse(self) -> str:
        """Return the call that makes activation functions faster."""
        return "gw.fuse(model)"


def _call(start: str, **options: Any) -> str:
    """Return a call of gatewise with keyword arguments."""
    return f"gw.{', '.join([start, *(f'{name}={value!r}' for name, value in options.items())])})"


@dataclass(frozen=True)
class Case:
    """What advice is based on.

    Attributes:
        findings: The findings by the name of the question.
        context: The model.
        rows: The layers of the model, with what was measured there.
        commands: How the advice says what to do.
    """

    findings: Mapping[str, Finding]
    context: DiagnosisContext
    rows: Sequence[Mapping[str, Any]]
    commands: Commands

    def swap(self, unit: str, sites: Sequence[str], **options: Any) -> str:
        """Return the command that replaces the units at some sites, and at no other.

        Args:
            unit: The new unit.
            sites: The names of the sites.
            **options: More arguments of :func:`gatewise.swap`.
        """
        return self.commands.swap(unit, [self.selection(site) for site in sites], **options)

    def selection(self, name: str) -> str:
        """Return what selects one site alone: its name, or a pattern if that matches more.

        The name of a module selects all its calls, and some letters have a meaning in a pattern.
        """
        paths = [site.path for site in self.context.graph]
        if paths.count(name) > 1 or re.search(r"[*?\[\]:]", name):
            return f"re:^{re.escape(name)}$"
        return name

    def row(self, site: str) -> Mapping[str, Any]:
        """Return the row of a site."""
        return next((row for row in self.rows if row["site"] == site), {})


Rule = Callable[[Case, Mapping[str, Any]], Advice | None]


def advise(case: Case) -> tuple[Advice, ...]:
    """Return all advice that the findings support, in its order. See Note [Which advice]."""
    advice = []
    for question, rule in RULES:
        if question in case.findings:
            advice.append(rule(case, case.findings[question].facts))
    known = [item for item in advice if item is not None]
    known.sort(key=lambda item: (item.strength == WEAK, item.kind != SAVING, -item.size))
    return tuple(known)


def _on_opposite_filters(case: Case, facts: Mapping[str, Any]) -> Advice | None:
    """CReLU at half width, where a layer has opposite filters: it needs one filter of each pair."""
    by_layer = {row["layer"]: row for row in facts["layers"] if _has_opposite_filters(row)}
    if not by_layer:
        return None
    reading = case.context.reading
    savings = crelu_savings(reading, by_layer)
    rows = [by_layer[saving.layer] for saving in savings]
    parameters = sum(saving.parameters for saving in savings)
    operations = sum(saving.operations for saving in savings)
    all_operations = sum(map(node_operations, reading.graph))
    all_parameters = parameter_count(case.context.model)
    compute = operations / all_operations
    size = max(compute, parameters / all_parameters)
    if size < FLOOR:
        return None
    mean = _total(rows, "mean") / len(rows)
    random = _total(rows, "chance_mean") / len(rows)
    names = [saving.layer for saving in savings]
    one = len(rows) == 1
    has, its = ("has", "its") if one else ("have", "their")
    text = (
        f"{sentence_start(layer_names(names))} {has} opposite filters: average correlation "
        f"{signed(mean)}; random filters give {signed(random)}. CReLU takes both signs from one "
        f"filter. Replace {its} ReLU by CReLU at half width to save {percentage(compute)} of the "
        f"compute and {parameters:,} of {all_parameters:,} parameters. Then train the network "
        "again."
    )
    filters = sum(row["filters"] for row in rows)
    sites = [saving.site for saving in savings]
    worst = max(max(row["p_corrected"], row["p_phases_corrected"]) for row in rows)
    return Advice(
        title=f"{sentence_start(layer_names(names))} "
        f"{'computes' if one else 'compute'} many filters twice, once per sign",
        effect=f"{MINUS}{percentage(compute)}",
        effect_of=f"of compute, if {filters // 2:,} filters with CReLU replace {filters:,}",
        text=text,
        evidence="; ".join(map(_opposite_evidence, rows)),
        strength=STRONG if worst < VERY_SURE else FAIR,
        command=case.swap("crelu", sites, width="half"),
        question="pairing",
        layers=tuple(names),
        kind=SAVING,
        size=size,
    )


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
        f"{p_value(row['p_phases_corrected'])} with random signs, corrected for all layers"
    )


def _on_exact_opposites(case: Case, facts: Mapping[str, Any]) -> Advice | None:
    """Merge filters that are each other's negative, which leaves the function as it is."""
    pairs: dict[str, int] = {}
    sites: list[str] = []
    compute = 0.0
    for row in facts["layers"]:
        count = _mutual_opposites(row)
        site = _relu_directly_after(case, row["layer"]) if count else None
        if site is not None:
            pairs[row["layer"]] = count
            sites.append(site)
            share = case.row(site).get("operations_share", 0.0)
            compute += share * count / row["filters"]
    if not pairs or compute < FLOOR:
        return None
    total = sum(pairs.values())
    where = ", ".join(repr(case.selection(site)) for site in sites)
    return Advice(
        title=f"{plural(2 * total, 'filter')} of {layer_names(pairs)} are opposites",
        effect=f"{MINUS}{percentage(compute)}",
        effect_of="of compute",
        text=f"In {layer_names(pairs)}, {plural(total, 'pair')} of filters are each other's "
        "negative, up to 2 %. Merge each pair into one filter with both signs. The network "
        "computes the same if they are exactly opposite, and nearly the same otherwise.",
        evidence=f"cosines at or below {signed(OPPOSITE, 4)} in "
        f"{joined([f'{name} ({count})' for name, count in pairs.items()])}",
        strength=STRONG,
        command=f"gw.surgery.merge_pairs(model, x, tolerance={TOLERANCE}, where=[{where}])",
        question="pairing",
        layers=tuple(pairs),
        kind=SAVING,
        size=compute,
    )


def _mutual_opposites(row: Mapping[str, Any]) -> int:
    """Return how many pairs of filters are each other's partner, and opposite."""
    count = 0
    for place, (partner, value) in enumerate(zip(row["partner"], row["correlation"], strict=True)):
        mutual = partner > place and row["partner"][partner] == place
        count += mutual and value is not None and value <= OPPOSITE
    return count


def _relu_directly_after(case: Case, layer: str) -> str | None:
    """Return the ReLU that reads a layer with no norm between: merging needs that."""
    for name, site in case.context.reading.site_nodes.items():
        node = site.input
        if site.op == "relu" and node.scope[0] == layer and node.tensor("weight") is not None:
            return name
    return None


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
        f"An image rebuilt from what {layer_name(layer)}{steps} pass on is off by "
        f"{percentage(relu)} of its norm; with CReLU, by {percentage(crelu)}. The command "
        "swaps in CReLU without changing the outputs, so that training can use the other sign."
    )
    by_relu = facts["per_image"][f"relu{pooled}"]
    by_crelu = facts["per_image"][f"crelu{pooled}"]
    evidence = (
        f"|x - x'| / |x| over {plural(facts['images'], 'image')}: {min(by_relu):.2f} to "
        f"{max(by_relu):.2f} with ReLU, {min(by_crelu):.2f} to {max(by_crelu):.2f} with CReLU"
    )
    place = "The first max-pool" if facts["pooled"] else f"The ReLU after {layer_name(layer)}"
    return Advice(
        title=f"{place} drops much of the image",
        effect=f"{percentage(relu)} → {percentage(crelu)}",
        effect_of="image error, if both signs are kept",
        text=text,
        evidence=evidence,
        strength=FAIR if min(by_relu) > max(by_crelu) else WEAK,
        command=case.swap("crelu", [sites[0].name], width="same", preserve=True),
        question="reconstruction",
        layers=(layer,),
        kind=GAIN,
        size=relu - crelu,
    )


def _on_similar_filters(case: Case, facts: Mapping[str, Any]) -> Advice | None:
    """Orthogonal filters, where two are almost the same."""
    # The cosine of opposite filters is as large; the advice on those is to merge them.
    opposite = _most_opposite(case)
    similar: dict[str, float] = {}
    for row in facts["layers"]:
        coherence = row["coherence"]
        possible = row["filters"] <= row["length"]  # else no filters are orthogonal
        if possible and coherence > ALIKE and coherence > opposite.get(row["name"], 0) + 1e-3:
            similar[row["name"]] = coherence
    compute = sum(row["operations_share"] for row in case.rows if row["layer"] in similar)
    if not similar or compute < FLOOR:
        return None
    most = max(similar, key=lambda name: similar[name])
    layers = ", ".join(map(repr, similar))
    return Advice(
        title=f"{sentence_start(layer_names(similar))} "
        f"{'has' if len(similar) == 1 else 'have'} filters that are almost the same",
        effect=percentage(compute),
        effect_of="of compute is in these layers",
        text=f"Some filters of {layer_names(similar)} are almost the same. Use fewer, or make them "
        "orthogonal and train again.",
        evidence=f"{most}: the largest |cosine| between two filters is {similar[most]:.4f}",
        strength=WEAK,  # that a layer has such filters does not say that it needs none of them
        command=f"gw.surgery.orthogonalize(model, layers=[{layers}])",
        question="orthogonality",
        layers=tuple(similar),
        kind=GAIN,
        size=compute,
    )


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
    layers = []
    compute = 0.0
    for site in sites:
        row = case.row(site["site"])
        names.append(site["site"])
        evidence.append(f"{site['site']}: {len(site['dead'])} of {site['channels']}")
        layers.append(row.get("layer", site["site"]))
        compute += row.get("operations_share", 0.0) * len(site["dead"]) / site["channels"]
    most = 1 - 0.05 ** (1 / facts["inputs"])
    evidence = [*evidence[:5], f"at 95 %, each fires on fewer than {percentage(most)} of inputs"]
    return Advice(
        title=f"{plural(dead, 'channel')} never {fires}",
        effect=percentage(compute),
        effect_of=f"of compute goes into {dead:,} of {channels:,} channels that never fire",
        text=text,
        evidence="; ".join(evidence),
        strength=_by_inputs(facts["inputs"]),
        command=case.swap("leaky_relu", names),
        question="gates",
        layers=tuple(layers),
        kind=SAVING,
        size=max(compute, dead / channels),
    )


def _on_seldom_open(case: Case, facts: Mapping[str, Any]) -> Advice | None:
    """More inputs, where much compute goes into gates that are almost never open."""
    rows = []
    for row in case.rows:
        seldom = row.get("on_rate", 1.0) < SELDOM and row["unit"] == "relu" and not row.get("dead")
        if seldom:
            rows.append(row)
    compute = _total(rows, "operations_share")
    if compute < SELDOM_SHARE or facts["inputs"] >= STRONG_INPUTS:
        return None
    names = [row["layer"] for row in rows]
    rates = [row["on_rate"] for row in rows]
    bits = [row["entropy"] for row in rows]
    wanted = max(STRONG_INPUTS, 2 * facts["inputs"])
    return Advice(
        title=f"{sentence_start(layer_names(names))} "
        f"{'is' if len(names) == 1 else 'are'} nearly always off",
        effect=percentage(compute),
        effect_of=f"of compute for gates that are open {percentage(min(rates))} to "
        f"{percentage(max(rates))} of the time",
        text=f"No channel is dead, but a gate there carries {min(bits):.2f} to {max(bits):.2f} "
        "bit. Narrower layers may do. Look at more inputs first.",
        evidence=f"{plural(facts['inputs'], 'input')}",
        strength=WEAK,
        command=case.commands.diagnose(examples=wanted, questions=["gates", "cost"]),
        question="gates",
        layers=tuple(names),
        kind=SAVING,
        size=compute,
    )


def _by_inputs(count: int) -> str:
    """Return how sure it is, by the number of inputs, that a channel never fires."""
    if count >= STRONG_INPUTS:
        return STRONG
    return FAIR if count >= FAIR_INPUTS else WEAK


def _on_saturated_gates(case: Case, facts: Mapping[str, Any]) -> Advice | None:
    """ReLU, where soft gates are almost always 0 or 1: it computes nearly the same for less."""
    names = []
    evidence = []
    layers = []
    time = 0.0
    for site in facts["sites"]:
        name = site["site"]
        saturated = site.get("saturated") or 0
        if site["unit"] in LIKE_RELU and saturated > SATURATED * site["channels"]:
            row = case.row(name)
            names.append(name)
            layers.append(row.get("layer", name))
            evidence.append(f"{name}: {saturated} of {site['channels']} saturated")
            time += row.get("time_share", 0.0)
    if not names or (0 < time < FLOOR):
        return None
    return Advice(
        title=f"{joined(names)} act like ReLU",
        effect=percentage(time) if time else plural(len(names), "activation"),
        effect_of="of the forward time goes into them" if time else "could be ReLU",
        text=f"The soft gates of {joined(names)} are almost always 0 or 1. Try ReLU there, which "
        "computes almost the same for less.",
        evidence="; ".join(evidence[:5]),
        strength=_by_inputs(facts["inputs"]),
        command=case.swap("relu", names),
        question="gates",
        layers=tuple(layers),
        kind=SAVING,
        size=time,
    )


def _on_cost(case: Case, facts: Mapping[str, Any]) -> Advice | None:
    """A plan of ReLU, where other units take much of the time."""
    # ReLU cannot take the place of a unit with other numbers of inputs and outputs, such as CReLU.
    others = {name for name, unit in registered_units().items() if unit.channel_ratio != 1}
    sites = [site for site in facts["sites"] if site["unit"] not in CHEAP | others]
    sites = [site for site in sites if site["share"] > 0]
    share = _total(sites, "share")
    if share < EXPENSIVE:
        return None
    units = sorted({site["unit"] for site in sites})
    takes = "takes" if len(units) == 1 else "take"
    seconds = _total(sites, "seconds")
    names = [case.row(site["name"]).get("layer", site["name"]) for site in sites]
    return Advice(
        title=f"{joined(units)} {takes} much of the time",
        effect=percentage(share),
        effect_of=f"of the forward time, in {plural(len(sites), 'place')}",
        text=f"{joined(units)} {takes} {percentage(share)} of the forward time. The command plans "
        "ReLU in these places. Compare the accuracy before you use it.",
        evidence=f"{seconds:.3g} s of {facts['seconds']:.3g} s for "
        f"{plural(facts['inputs'], 'input')}, on this computer",
        strength=FAIR,
        command=case.swap("relu", [site["name"] for site in sites], dry_run=True),
        question="cost",
        layers=tuple(names),
        kind=SAVING,
        size=share,
    )


def _total(rows: Sequence[Mapping[str, Any]], key: str) -> float:
    return sum(row[key] for row in rows)


# The question whose finding a rule reads, and the rule.
RULES: Sequence[tuple[str, Rule]] = (
    ("pairing", _on_opposite_filters),
    ("gates", _on_dead_channels),
    ("gates", _on_seldom_open),
    ("gates", _on_saturated_gates),
    ("pairing", _on_exact_opposites),
    ("reconstruction", _on_lost_image),
    ("orthogonality", _on_similar_filters),
    ("cost", _on_cost),
)


def nothing_to_fix(findings: Mapping[str, Finding], advice: Sequence[Advice]) -> tuple[str, ...]:
    """Return what was looked for and is small or absent, with its number.

    Args:
        findings: The findings by the name of the question.
        advice: What is advised, which is not listed again.
    """
    parts = []
    if "gates" in findings:
        counts = gate_counts(findings["gates"].facts["sites"])
        few = DEAD * counts.channels  # of which there is no advice either
        if counts.dead < few:
            parts.append(f"dead channels ({counts.dead:,} of {counts.channels:,})")
        if counts.always_on < few:
            parts.append(f"always on ({counts.always_on:,})")
        if counts.alike < few:
            parts.append(f"channels on for the same inputs as another ({counts.alike:,})")
    if "cost" in findings and findings["cost"].facts["site_share"] < EXPENSIVE:
        share = percentage(findings["cost"].facts["site_share"])
        parts.append(f"time spent in activation functions ({share})")
    if "pairing" in findings and not any(item.question == "pairing" for item in advice):
        rows = [row for row in findings["pairing"].facts["layers"] if row["mean"] is not None]
        if not any(_has_opposite_filters(row) for row in rows):
            parts.append(f"opposite filters (none in {plural(len(rows), 'layer')})")
    return tuple(parts)
