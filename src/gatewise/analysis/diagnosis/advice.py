"""Advice from findings.

Sentences with numbers, each with its evidence and a command, and none without.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gatewise.analysis.diagnosis.context import Subject
from gatewise.analysis.diagnosis.finding import Finding
from gatewise.analysis.diagnosis.questions import SURE
from gatewise.analysis.diagnosis.saving import crelu_savings
from gatewise.analysis.diagnosis.words import all_called, called, chance, few, plural, share, signed
from gatewise.graph import parameter_count

PAIRED, CLEAR = (
    -0.5,
    0.1,
)  # a mean correlation this low, and this much below chance, is worth a change
OPPOSITE = -0.98  # filters this opposite are one filter and its negative
FORGETS = 0.1  # a share of the image that both phases would keep and one does not
NEVER_ON = 0.02  # a share of dead channels worth a word
ENOUGH = 30  # inputs: what fewer do not open may well be open for the next
ALIKE = 0.98
AS_GOOD_AS_ALL = 0.9
LIKE_RELU = {"silu", "gelu", "swish", "mish"}  # with their gates at the ends
CHEAP = {"relu", "leaky_relu", "abs", "relu6"}
DEAR = 0.2  # a share of the time worth a word


@dataclass(frozen=True)
class Advice:
    """One thing to do, why, and how."""

    text: str
    evidence: str  # the numbers it rests on
    command: str
    question: str  # whose finding it rests on

    def to_dict(self) -> dict[str, str]:
        """Plain values, for a file."""
        return asdict(self)


@dataclass(frozen=True)
class Case:
    """What advice is given on: the findings by question, the model, and how a command names it."""

    findings: Mapping[str, Finding]
    subject: Subject
    reference: str  # MODEL and the options that make it

    def swap(self, *arguments: str) -> str:
        """A command that changes the model."""
        return f"gatewise swap {self.reference} {shlex.join(arguments)}"


def advise(case: Case) -> tuple[Advice, ...]:
    """All that the findings support."""
    found = [
        give(case, case.findings[name].facts) for name, give in GIVERS if name in case.findings
    ]
    return tuple(each for each in found if each is not None)


def _on_pairs(case: Case, facts: Mapping[str, Any]) -> Advice | None:
    """Filters that pair: CReLU holds both with one."""
    clear = {row["layer"]: row for row in facts["layers"] if _pairs(row)}
    savings = crelu_savings(case.subject.reading, clear)
    if not savings:
        return None
    rows = [clear[each.layer] for each in savings]
    saved, whole = sum(each.parameters for each in savings), parameter_count(case.subject.model)
    mean, random = (sum(row[key] for row in rows) / len(rows) for key in ("mean", "chance_mean"))
    layers = all_called(each.layer for each in savings)
    text = (
        f"The filters of {layers} pair at {signed(mean)} against {signed(random)} by chance: CReLU "
    )
    text += f"at half width there would save {share(saved / whole)} of the parameters ({saved:,} of {whole:,})."
    evidence = "; ".join(map(_paired_by, rows))
    where = [part for each in savings for part in ("--where", each.site)]
    command = case.swap("--unit", "crelu", "--width", "half", *where, "--out", "crelu.safetensors")
    return Advice(text, evidence, command, "pairing")


def _pairs(row: Mapping[str, Any]) -> bool:
    """Whether filters are far from random ones, and more opposite than alike.

    A few directions give the first alone.
    """
    from_random = row["p_corrected"] < SURE and row["mean"] < min(
        PAIRED, row["chance_mean"] - CLEAR
    )
    return from_random and row["p_phases_corrected"] < SURE


def _paired_by(row: Mapping[str, Any]) -> str:
    told = f"{row['layer']}: {signed(row['mean'])} against {signed(row['chance_mean'])}, {chance(row['p_corrected'])}"
    alike = f"{signed(row['similar_mean'])} with the most similar, {chance(row['p_phases_corrected'])} with random signs"
    return f"{told}; {alike}"


def _on_opposites(case: Case, facts: Mapping[str, Any]) -> Advice | None:
    """Filters that are each other's negative: merged, the function stays."""
    counts = {
        row["layer"]: sum(c is not None and c < OPPOSITE for c in row["correlation"])
        for row in facts["layers"]
    }
    counts = {layer: count for layer, count in counts.items() if count > 1}
    if not counts:
        return None
    worst = max(counts, key=lambda layer: counts[layer])
    text = f"{plural(sum(counts.values()), 'filter')} of {all_called(counts)} have their negative in the same layer: "
    text += "one filter with both phases does the work of two."
    evidence = f"{worst}: {plural(counts[worst], 'filter')} whose cosine with another is below {signed(OPPOSITE)}"
    return Advice(text, evidence, "gw.merge_pairs(model, example, tolerance=0.02)", "pairing")


def _on_forgetting(case: Case, facts: Mapping[str, Any]) -> Advice | None:
    """A first layer whose positive phase alone loses much of the image."""
    after = "_pooled" if facts["pooled"] else ""
    one, both = facts["ratios"][f"relu{after}"], facts["ratios"][f"crelu{after}"]
    sites = [
        each
        for each in case.subject.graph
        if facts["layer"] in each.producers and each.op == "relu"
    ]
    if not sites or one - both < FORGETS:
        return None
    text = f"The ReLU after {called(facts['layer'])} drops {share(one)} of the image where both phases would drop "
    text += (
        f"{share(both)}: CReLU keeps them, and with --preserve the function as it is to begin with."
    )
    over = plural(facts["images"], "image")
    evidence = (
        f"|x - x'| / |x| over {over}: {one:.3f} from the positive phase, {both:.3f} from both"
    )
    command = case.swap(
        "--unit", "crelu", "--width", "same", "--preserve", "--where", sites[0].name
    )
    return Advice(text, evidence, f"{command} --out crelu.safetensors", "reconstruction")


def _on_alike(case: Case, facts: Mapping[str, Any]) -> Advice | None:
    """Filters that are the same, or nothing."""
    opposite = _most_opposite(case)
    alike = {
        row["name"]: row["coherence"]
        for row in facts["layers"]
        if row["coherence"] > ALIKE and row["coherence"] > opposite.get(row["name"], 0) + 1e-3
    }
    if not alike:
        return None
    worst = max(alike, key=lambda name: alike[name])
    text = f"Some filters of {all_called(alike)} are all but equal: fewer would do, or orthogonal ones from the start."
    evidence = f"{worst}: the largest |cosine| between two filters is {alike[worst]:.4f}"
    return Advice(text, evidence, "gw.orthogonalize(model)", "orthogonality")


def _most_opposite(case: Case) -> dict[str, float]:
    """By layer, how opposite its most opposite filters are: those have their own advice."""
    rows = case.findings["pairing"].facts["layers"] if "pairing" in case.findings else []
    return {
        row["layer"]: max((-c for c in row["correlation"] if c is not None), default=0.0)
        for row in rows
    }


def _on_dead(case: Case, facts: Mapping[str, Any]) -> Advice | None:
    """Channels that no input ever opens, where the unit gives them no gradient either."""
    hard = [each for each in facts["sites"] if each["unit"] == "relu" and each["dead"]]
    dead = sum(len(each["dead"]) for each in hard)
    whole = sum(each["channels"] for each in facts["sites"])
    if dead < NEVER_ON * whole or facts["inputs"] < ENOUGH:
        return None
    hard.sort(key=lambda each: len(each["dead"]) / each["channels"], reverse=True)
    were, them, they = ("was", "it", "it") if dead == 1 else ("were", "them", "they")
    text = f"{dead:,} of {whole:,} channels {were} never on for {facts['inputs']:,} inputs, and ReLU gives {them} no "
    text += f"gradient: leaky ReLU lets {them} learn again, or {they} can be left out."
    evidence = "; ".join(
        f"{each['site']}: {len(each['dead'])} of {each['channels']}" for each in hard[:5]
    )
    where = [part for each in hard for part in ("--where", each["site"])]
    return Advice(
        text,
        evidence,
        case.swap("--unit", "leaky_relu", *where, "--out", "leaky.safetensors"),
        "gates",
    )


def _on_saturated(case: Case, facts: Mapping[str, Any]) -> Advice | None:
    """Soft gates that are as good as hard: the cheaper hard unit computes the same."""
    soft = [
        each
        for each in facts["sites"]
        if each.get("saturated") and each["unit"] in ("silu", "gelu", "swish", "mish")
    ]
    hard = [each for each in soft if each["saturated"] > AS_GOOD_AS_ALL * each["channels"]]
    if not hard:
        return None
    text = f"The soft gates of {few([each['site'] for each in hard])} are at their ends nearly always: ReLU would compute "
    text += "the same there for less."
    evidence = "; ".join(
        f"{each['site']}: {each['saturated']} of {each['channels']} saturated" for each in hard[:5]
    )
    where = [part for each in hard for part in ("--where", each["site"])]
    return Advice(
        text, evidence, case.swap("--unit", "relu", *where, "--out", "relu.safetensors"), "gates"
    )


def _on_cost(case: Case, facts: Mapping[str, Any]) -> Advice | None:
    """Units that take much of the time although a cheaper one of their kind is there."""
    dear = [each for each in facts["sites"] if each["unit"] not in CHEAP and each["share"] > 0]
    taken = sum(each["share"] for each in dear)
    if taken < DEAR:
        return None
    units = sorted({each["unit"] for each in dear})
    text = f"{few(units)} take {share(taken)} of the forward time at {plural(len(dear), 'site')}: compare with ReLU "
    text += "before paying for it."
    seconds = sum(each["seconds"] for each in dear)
    evidence = f"{seconds:.3g} s of {facts['seconds']:.3g} s for {plural(facts['inputs'], 'input')}"
    command = f"gatewise plan {case.reference} --unit relu"
    return Advice(text, evidence, command, "cost")


GIVERS: Sequence[tuple[str, Callable[[Case, Mapping[str, Any]], Advice | None]]] = (
    ("pairing", _on_pairs),
    ("gates", _on_dead),
    ("gates", _on_saturated),
    ("pairing", _on_opposites),
    ("reconstruction", _on_forgetting),
    ("orthogonality", _on_alike),
    ("cost", _on_cost),
)
