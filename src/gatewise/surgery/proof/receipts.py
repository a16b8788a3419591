"""What was done to a model, and how far it was proved."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from gatewise.surgery.planning.plans import Entry, Plan
from gatewise.surgery.rewrite.transaction import Change


@dataclass(frozen=True)
class Proof:
    """Largest differences relative to the largest number compared.

    ``None`` where it was not computed.

    ``live``: random numbers in the new weights move the output, so that equality means something;
    ``"vacuous"`` if they do not. ``notes`` say what could not be run and why, and if all but
    ``output_float32`` is on a part of the
    example: which.
    """

    output_float64: float | None = None
    output_float32: float | None = None
    random_input: float | None = None  # float32, one example of random numbers
    train_output: float | None = None  # float64, dropout off
    gradient: float | None = None  # of the old weights, float64, train mode
    against_graph: float | None = None  # what the read graph computes with the units at its sites
    live: str = "not checked"
    moved: float | None = None
    live_edits: tuple[int, int] | None = (
        None  # weights whose new entries have a gradient, of how many
    )
    saved_bytes: tuple[int, int] | None = (
        None  # kept for the backward pass, before and after, at float32
    )
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """For people: what was computed, a line each; then the notes."""
        shown = {
            name: value
            for name, value in asdict(self).items()
            if value is not None and name != "notes"
        }
        return [
            f"{name.replace('_', ' ')}: {_words(name, value)}" for name, value in shown.items()
        ] + [*self.notes]


@dataclass(frozen=True)
class Receipt:
    """What :func:`gatewise.swap` did: the sites, the cost before and after, and the proof."""

    unit: str
    preserve: bool
    sites: tuple[str, ...]
    refused: Mapping[str, str]
    parameters: tuple[int, int]
    operations: tuple[int, int]
    proof: Proof | None
    notes: tuple[str, ...] = ()
    put_back: tuple[
        str, ...
    ] = ()  # readers before which the activation stands again, and whose it is

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    def to_json(self) -> str:
        """As text."""
        return json.dumps(self.to_dict())

    def __str__(self) -> str:
        lines = [f"{len(self.sites)} sites now {self.unit}, {len(self.refused)} refused"]
        lines.append(f"parameters {self.parameters[0]:,} to {self.parameters[1]:,}")
        lines.append(f"operations {self.operations[0]:,} to {self.operations[1]:,}")
        for why, sites in _by_reason(self.refused).items():
            lines.append(f"refused, {why}: {', '.join(sites)}")
        lines += [f"put back: {edge}" for edge in self.put_back]
        if self.proof is None:
            lines.append("not proved: there was no example")
        else:
            lines += self.proof.lines()
        return "\n".join([*lines, *self.notes])


@dataclass
class SwapRecord:
    """Kept on a changed model: the receipt, and what undoing needs."""

    receipt: Receipt
    changes: list[Change] = field(default_factory=list)


def make_receipt(plan: Plan, parameters: int, proof: Proof | None) -> Receipt:
    """The receipt of ``plan``, done; ``parameters`` are those counted on the changed model."""
    return Receipt(
        unit=plan.unit,
        preserve=plan.preserve,
        sites=tuple(entry.site for entry in plan.swapped),
        refused={entry.site: _why(entry) for entry in plan.refused},
        parameters=(plan.parameters[0], parameters),
        operations=plan.operations,
        proof=proof,
        notes=plan.notes,
        put_back=tuple(str(edge) for edge in plan.put_back),
    )


def _words(name: str, value: Any) -> str:
    if name == "live_edits":
        return f"{value[0]} of {value[1]} new weights have gradients"
    if name == "saved_bytes":
        return f"{value[0]:,} to {value[1]:,}"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _by_reason(refused: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for site, why in refused.items():
        found.setdefault(why, []).append(site)
    return found


def _why(entry: Entry) -> str:
    return entry.why
