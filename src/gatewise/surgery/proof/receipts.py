"""Receipts: what was done to a model, and how it was proved."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from gatewise.graph import known_activations
from gatewise.results import Result
from gatewise.surgery.planning import PlanData
from gatewise.words import joined, plural

PROVED = "checked"
WIRING = "wiring checked, function new"
NOT_PROVED = "not checked"
SHOWN = 2  # unreached parts of a model that the short text names
DIFFERENCES = (
    "output_float64",
    "output_float32",
    "random_input",
    "train_output",
    "gradient",
    "against_reference",
    "reference_train",
    "reference_gradient",
    "against_graph",
)
NOT_LISTED = ("notes", "verdict", "reason", "examples", "unreached", "changed_inside")


@dataclass(frozen=True)
class Proof(Result):
    """Largest differences, relative to the largest number compared; ``None`` if not computed.

    Attributes:
        verdict: ``"checked"``: outputs and gradients are equal on the examples, in the modes that
            were run; ``"wiring checked, function new"`` if widths change, and the changed model was
            compared with its new weights at zero; or ``"not checked"``.
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
        compared_weights: of how many weights gradients were compared, and how many there are;
            ``None`` if of all.
        against_graph: of the changed model's outputs from what the original's graph computes with
            the units at its sites.
        unreached: modules and lines of the model's code that no example has reached.
        live: whether random numbers in the new weights change the output, so that equality means
            something; ``"vacuous"`` if they do not.
        moved: by how much they change it.
        live_edits: how many of the weights with new entries have a gradient there, and how many
            such weights there are.
        outputs_moved: how far the outputs on the first example are from the original's, in eval
            mode: the root mean square of the change, relative to that of the outputs. ``None`` if
            the function is kept or weights are added.
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
    compared_weights: tuple[int, int] | None = None
    against_graph: float | None = None
    live: str = "not checked"
    moved: float | None = None
    live_edits: tuple[int, int] | None = None
    outputs_moved: float | None = None
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
                f"{count} modules or attributes have other values than before ({shown}{more}): "
                "hidden states and features that are taken from them change"
            )
        return [*lines, *self.notes]

    def what(self, units: str) -> str:
        """What was compared, and on which examples in which modes.

        Args:
            units: the names of the units that were put in.
        """
        if self.verdict == NOT_PROVED:
            return f"not proved: {self.reason}"
        examples = plural(self.examples, "example")
        trained = self.train_output is not None or self.reference_train is not None
        modes = "eval and training mode" if trained else "eval mode"
        results = "outputs"
        if self.gradient is not None or self.reference_gradient is not None:
            results = "outputs and gradients"
            if self.compared_weights is not None:
                some, of_all = self.compared_weights
                results = f"outputs and the gradients of {some} of {of_all} weights"
        if self.keeps_function:
            other = "the original's"
        elif self.against_graph is not None:
            other, modes = f"those of the original's graph with {units} put in", "eval mode"
        else:
            other = f"those of the original with its activations replaced by {units}"
            if self.against_reference is None:
                modes = "training mode"
        what = f"{results} equal {other} on {examples} in {modes}"
        if self.verdict == WIRING:
            what += " (new weights were zero for this)" if self.moved is not None else ""
        return what

    @property
    def keeps_function(self) -> bool:
        """Whether the changed model was compared with the original as it is."""
        return self.output_float32 is not None

    @property
    def largest(self) -> float | None:
        """The largest relative difference of outputs or gradients; ``None`` if none was found."""
        values = [getattr(self, name) for name in DIFFERENCES]
        return max((value for value in values if value is not None), default=None)


@dataclass(frozen=True)
class Receipt(Result):
    """What :func:`gatewise.swap` did: four lines as text, and all else in :attr:`details`.

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

    _properties = ("proved",)

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

    @property
    def left(self) -> tuple[str, ...]:
        """Activations that the model's code writes out, which are no sites and did not change."""
        return known_activations(self.notes)

    def to_json(self) -> str:
        """The receipt as text."""
        return json.dumps(self.to_dict())

    def __str__(self) -> str:
        return "\n".join((self._checked(), self._refused(), self._difference(), self._cost()))

    @property
    def details(self) -> str:
        """All that is known about the swap, as text: each site, each number, each remark."""
        lines = str(self).splitlines()
        for unit in dict.fromkeys(self.units.values()):
            names = [site for site, put_in in self.units.items() if put_in == unit]
            lines.append(f"{unit}: {', '.join(names)}")
        for why, sites in _by_reason(self.refused).items():
            lines.append(f"refused, {why}: {', '.join(sites)}")
        lines += [f"put back: {edge}" for edge in self.put_back]
        if self.proof is not None:
            lines += [f"not reached by any example: {part}" for part in self.proof.unreached]
            lines += self.proof.lines()
        if self.earlier:
            lines.append(f"earlier swaps of this model: {self.earlier}")
        return "\n".join([*lines, *self.notes])

    def _checked(self) -> str:
        """What changed, and what was compared."""
        counts = Counter(self.units.values()) or {self.unit: len(self.sites)}
        changed = ", ".join(
            f"{plural(number, 'site')} now {unit}" for unit, number in counts.items()
        )
        if self.proof is None:
            return f"NOT CHECKED: {changed}; not proved: there was no example"
        verdict = self.proof.verdict.upper()
        if self.proof.verdict == PROVED:
            verdict += ", function " + ("kept" if self.proof.keeps_function else "changed")
        return f"{verdict}: {changed}; {self.proof.what(', '.join(counts))}"

    def _refused(self) -> str:
        """How many sites were refused, and why, and the activations that are no sites."""
        left = f"; left as it is: {joined(self.left)}" if self.left else ""
        reasons = _by_reason(self.refused)
        if not reasons:
            return f"refused: none{left}"
        parts = [f"{len(sites)} x {why}" for why, sites in list(reasons.items())[:2]]
        more = f"; and {len(reasons) - 2} other reasons" if len(reasons) > 2 else ""
        return f"refused: {'; '.join(parts)}{more}{left}"

    def _difference(self) -> str:
        """The largest difference, and what no example has reached."""
        largest = self.proof.largest if self.proof is not None else None
        words = "not compared"
        if largest is not None:
            words = f"{largest:.2g} (relative to the largest output or gradient)"
            if self.proof is not None and not self.proof.keeps_function:
                put_in = ", ".join(dict.fromkeys(self.units.values())) or self.unit
                words = f"{largest:.2g} from the original with {put_in} put in"
        if self.proof is not None and self.proof.outputs_moved is not None:
            words += f"; outputs moved by {self.proof.outputs_moved:.2g} of their size"
        if self.proof is not None and self.proof.live == "vacuous":
            words += " (vacuous: random new weights do not change the output)"
        parts = self.unreached
        unreached = ""
        if parts:
            more = f" and {len(parts) - SHOWN} more" if len(parts) > SHOWN else ""
            unreached = f"; not reached by any example: {', '.join(parts[:SHOWN])}{more}"
        return f"largest difference: {words}{unreached}"

    def _cost(self) -> str:
        """Parameters, operations and memory, before and after."""
        pairs = {"parameters": self.parameters, "operations": self.operations}
        if self.proof is not None and self.proof.saved_bytes is not None:
            pairs["bytes kept for the backward pass"] = self.proof.saved_bytes
        costs = []
        for name, (before, after) in pairs.items():
            change = "as before" if before == after else f"to {after:,}"
            costs.append(f"{name} {before:,} {change}")
        return f"cost: {', '.join(costs)}"


def make_receipt(plan: PlanData, parameters: int, proof: Proof | None, earlier: int) -> Receipt:
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
    if name == "compared_weights":
        return f"gradients of {value[0]} of {value[1]}"
    if name == "saved_bytes":
        return f"{value[0]:,} to {value[1]:,}"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _by_reason(refused: Mapping[str, str]) -> dict[str, list[str]]:
    sites: dict[str, list[str]] = {}
    for site, why in refused.items():
        sites.setdefault(why, []).append(site)
    return sites
