"""Receipts: what was done to a model, and how it was proved."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from gatewise.surgery.planning import Plan, unreached_lines

PROVED = "proved"
WIRING = "wiring proved, function new"
NOT_PROVED = "not proved"
NOT_LISTED = ("notes", "verdict", "reason", "examples", "unreached", "changed_inside")


@dataclass(frozen=True)
class Proof:
    """Largest differences, relative to the largest number compared; ``None`` if not computed.

    Attributes:
        verdict: ``"proved"``; ``"wiring proved, function new"`` if widths change, and the changed
            model was compared with its new weights at zero; or ``"not proved"``.
        reason: why it was not proved.
        examples: how many examples were compared.
        output_float64: of the outputs on the example, in float64.
        output_float32: the same in float32.
        random_input: of the outputs on one example of random numbers, in float32.
        train_output: of the outputs in training mode without dropout, in float64.
        gradient: of the gradients of the old weights in training mode, in float64.
        against_reference: of the changed model's outputs from those of the original, run with the
            units' values in place of its activations' values, in eval mode.
        reference_train: the same in training mode, in the model's own type.
        reference_gradient: the same of gradients in training mode.
        against_graph: of the changed model's outputs from what the original's graph computes with
            the units at its sites.
        unreached: modules and branches of the model's code that no example has reached.
        live: whether random numbers in the new weights change the output, so that equality means
            something; ``"vacuous"`` if they do not.
        moved: by how much they change it.
        live_edits: how many of the weights with new entries have a gradient there, and how many
            such weights there are.
        saved_bytes: kept for the backward pass before and after, at float32.
        notes: what could not be run and why, and on which part of the example all but
            ``output_float32`` was computed.
    """

    verdict: str = NOT_PROVED
    reason: str = ""
    examples: int = 1
    output_float64: float | None = None
    output_float32: float | None = None
    random_input: float | None = None
    train_output: float | None = None
    gradient: float | None = None
    against_reference: float | None = None
    reference_train: float | None = None
    reference_gradient: float | None = None
    against_graph: float | None = None
    live: str = "not checked"
    moved: float | None = None
    live_edits: tuple[int, int] | None = None
    saved_bytes: tuple[int, int] | None = None
    notes: tuple[str, ...] = ()
    unreached: tuple[str, ...] = ()
    changed_inside: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """A line for each number that was computed, then the notes."""
        lines = []
        for name, value in asdict(self).items():
            if value is not None and name not in NOT_LISTED:
                lines.append(f"{name.replace('_', ' ')}: {_words(name, value)}")
        if self.changed_inside:
            shown = ", ".join(self.changed_inside[:6])
            more = ", ..." if len(self.changed_inside) > 6 else ""
            count = len(self.changed_inside)
            lines.append(
                f"{count} modules return other values than before ({shown}{more}): hidden states "
                "and features that are taken from them change"
            )
        return [*lines, *self.notes]

    def first_line(self, units: str) -> str:
        """The verdict, and what was compared.

        Args:
            units: the names of the units that were put in.
        """
        if self.verdict == NOT_PROVED:
            return f"NOT PROVED: {self.reason}"
        examples = "1 example" if self.examples == 1 else f"{self.examples} examples"
        if self.output_float32 is not None:
            modes = "eval and training mode" if self.train_output is not None else "eval mode"
            what = f"the outputs equal the original's on {examples} in {modes}"
        elif self.against_graph is not None:
            what = f"the outputs equal those of the original's graph with {units} on {examples}"
            what += " in eval mode"
        else:
            modes = "eval and training mode" if self.reference_train is not None else "eval mode"
            if self.against_reference is None:
                modes = "training mode"
            what = f"the outputs equal the original's with {units} put in, on {examples} in {modes}"
        if self.verdict == WIRING:
            what += " (new weights were zero for this)" if self.moved is not None else ""
        if self.unreached:
            what += f"; not reached: {len(self.unreached)} parts of the model, listed below"
        return f"{self.verdict.upper()}: {what}"


@dataclass(frozen=True)
class Receipt:
    """What :func:`gatewise.swap` did.

    Attributes:
        unit: the units that were asked for, separated by commas.
        preserve: whether the function had to be preserved.
        sites: the names of the sites that changed.
        refused: the sites that did not, with the reason.
        parameters: their number before and after.
        operations: of one pass on the example, before and after.
        proof: how the change was proved; ``None`` without an example.
        notes: remarks for people.
        put_back: readers before which an activation is applied again.
        units: the unit of each site that changed.
        earlier: how many swaps of this model came before.
    """

    unit: str
    preserve: bool
    sites: tuple[str, ...]
    refused: Mapping[str, str]
    parameters: tuple[int, int]
    operations: tuple[int, int]
    proof: Proof | None
    notes: tuple[str, ...] = ()
    put_back: tuple[str, ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    earlier: int = 0

    @property
    def proved(self) -> bool:
        """Whether what the changed model computes was compared, and found right."""
        return self.proof is not None and self.proof.verdict != NOT_PROVED

    @property
    def unreached(self) -> tuple[str, ...]:
        """Modules and branches of the model's code that no example has reached."""
        return self.proof.unreached if self.proof is not None else ()

    def to_dict(self) -> dict[str, Any]:
        """The receipt as plain values."""
        return asdict(self) | {"proved": self.proved}

    def to_json(self) -> str:
        """The receipt as text."""
        return json.dumps(self.to_dict())

    def __str__(self) -> str:
        counts = Counter(self.units.values()) or {self.unit: len(self.sites)}
        changed = ", ".join(f"{count} sites now {unit}" for unit, count in counts.items())
        if self.proof is None:
            lines = ["NOT PROVED: there was no example"]
        else:
            lines = [self.proof.first_line(", ".join(counts))]
            lines += unreached_lines(self.proof.unreached)
        lines.append(f"{changed}, {len(self.refused)} refused")
        if len(counts) > 1:
            for unit in counts:
                names = [site for site, put_in in self.units.items() if put_in == unit]
                lines.append(f"{unit}: {', '.join(names)}")
        lines.append(f"parameters {self.parameters[0]:,} to {self.parameters[1]:,}")
        lines.append(f"operations {self.operations[0]:,} to {self.operations[1]:,}")
        for why, sites in _by_reason(self.refused).items():
            lines.append(f"refused, {why}: {', '.join(sites)}")
        lines += [f"put back: {edge}" for edge in self.put_back]
        if self.proof is not None:
            lines += self.proof.lines()
        if self.earlier:
            lines.append(f"earlier swaps of this model: {self.earlier}")
        return "\n".join([*lines, *self.notes])


def make_receipt(plan: Plan, parameters: int, proof: Proof | None, earlier: int) -> Receipt:
    """The receipt of a plan that was carried out.

    Args:
        plan: the plan.
        parameters: their number, counted on the changed model.
        proof: how it was proved.
        earlier: how many swaps came before.
    """
    return Receipt(
        unit=plan.unit,
        preserve=plan.preserve,
        sites=tuple(entry.site for entry in plan.swapped),
        refused={entry.site: entry.why for entry in plan.refused},
        parameters=(plan.parameters[0], parameters),
        operations=plan.operations,
        proof=proof,
        notes=plan.notes,
        put_back=tuple(str(edge) for edge in plan.put_back),
        units={entry.site: entry.unit for entry in plan.swapped},
        earlier=earlier,
    )


def _words(name: str, value: Any) -> str:
    if name == "live_edits":
        return f"{value[0]} of {value[1]} new weights have gradients"
    if name == "saved_bytes":
        return f"{value[0]:,} to {value[1]:,}"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _by_reason(refused: Mapping[str, str]) -> dict[str, list[str]]:
    sites: dict[str, list[str]] = {}
    for site, why in refused.items():
        sites.setdefault(why, []).append(site)
    return sites
