"""A plan: every site, what happens to it or why not, and all that has to be edited."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from torch import nn

from gatewise.checks import check_choice
from gatewise.errors import ArgumentError
from gatewise.surgery.binding import Binding
from gatewise.surgery.calls import CallSite
from gatewise.surgery.planning.plain import from_plain, to_plain
from gatewise.surgery.planning.plan_text import plan_as_text
from gatewise.surgery.planning.put_back import PutBack
from gatewise.surgery.planning.swap_interface import Swap, find_swap
from gatewise.surgery.propagate import Edit, Setting
from gatewise.surgery.reasons import Reason
from gatewise.surgery.rewrite import Transaction
from gatewise.words import FitsScreen, plural

FORMAT = 3
CHANGES = ("swap", "refuse", "leave")
NOT_WRITTEN = ("examples", "graph", "sizes")  # known while the plan is in memory


@dataclass(frozen=True)
class Entry:
    """One site in a plan.

    Attributes:
        site: its name.
        path: the module that makes the call, or is it.
        kind: ``"module"``, ``"functional"``, ``"reused"``, ``"hidden-in-norm"`` or ``"addition"``.
        op: the activation it has now.
        role: its role in the network.
        order: its place in the graph.
        change: ``"swap"``, ``"refuse"`` (asked for, and not possible) or ``"leave"`` (not asked
            for).
        channels: how many it has now.
        after: how many it will have.
        producers: the layers that make its input.
        consumers: the layers that read its output.
        unit: the unit it changes to; empty if it does not change.
        options: the unit's options.
        reason: a name of :class:`~gatewise.surgery.Reason`, for a refused site.
        detail: words that go with the reason.
        call: where a functional or reused call stands in the source.
        shared: whether it is called more than once.
        bindings: for units that see the layer before them: where both are called.
        moved: nothing remains at the site; its units are in the branches that are added before it.
    """

    site: str
    path: str
    kind: str
    op: str
    role: str
    order: int
    change: str
    channels: int | None
    after: int | None
    producers: tuple[str, ...]
    consumers: tuple[str, ...]
    unit: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    detail: str = ""
    call: CallSite | None = None
    shared: bool = False
    bindings: tuple[Binding, ...] = ()
    moved: bool = False

    def __post_init__(self) -> None:
        check_choice("Entry", "change", self.change, CHANGES)
        if self.reason != "":
            check_choice("Entry", "reason", self.reason, Reason.__members__)

    @property
    def why(self) -> str:
        """The reason in words."""
        words = Reason[self.reason].value if self.reason else ""
        return f"{words} ({self.detail})" if self.detail else words


@dataclass(frozen=True)
class PlanData(FitsScreen):
    """What :func:`gatewise.plan` found out, as data: print it, or write it with :meth:`to_json`.

    Attributes:
        unit: the units that were asked for, separated by commas.
        width: ``"half"``, ``"same"`` or, for several units that differ, ``"mixed"``.
        preserve: whether the changed model must compute the same function.
        policy: which tensors may be widened.
        entries: one for each site.
        edits: changes of parameters.
        settings: changes of sizes that modules keep.
        layers: phase selective layers by path, with a slope for each input channel.
        parameters: their number before and after.
        operations: of one pass on the example, before and after.
        signature: the shape of every parameter and buffer of the model it was made for.
        notes: remarks for people.
        put_back: activations that phase selective layers leave to some of the readers.
        earlier: how many swaps the model had before.
        scaled: whether widths were scaled to match a cost, so that the function is another one.
        unreached: modules and lines of the model's code that no example has reached.
        unit_dtype: the type of the units' parameters, such as ``"float32"``; empty for the model's.
        replaced: layers that a swap replaces, by path, with the ``"swap"`` and its options. Those
            with a second weight are in ``layers``, too.
        examples: what it was made from; not written to files, as the next two.
        graph: the graph of the model.
        sizes: the shape of each layer's output on the example.
    """

    unit: str
    width: str
    preserve: bool
    policy: str
    entries: tuple[Entry, ...]
    edits: tuple[Edit, ...]
    settings: tuple[Setting, ...]
    layers: Mapping[str, tuple[float, ...]]
    parameters: tuple[int, int]
    operations: tuple[int, int]
    signature: Mapping[str, tuple[int, ...]]
    notes: tuple[str, ...] = ()
    put_back: tuple[PutBack, ...] = ()
    earlier: int = 0
    scaled: bool = False
    unreached: tuple[str, ...] = ()
    replaced: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    unit_dtype: str = ""
    examples: tuple[Any, ...] = field(default=(), compare=False, repr=False)
    graph: Any = field(default=None, compare=False, repr=False)
    sizes: Any = field(default=None, compare=False, repr=False)

    @property
    def swapped(self) -> tuple[Entry, ...]:
        """The sites that change."""
        return tuple(entry for entry in self.entries if entry.change == "swap")

    @property
    def refused(self) -> tuple[Entry, ...]:
        """The sites that were asked for and cannot change."""
        return tuple(entry for entry in self.entries if entry.change == "refuse")

    @property
    def narrows(self) -> bool:
        """Whether every parameter that is edited has an edit that adds no entries."""
        narrowed = {edit.name for edit in self.edits if not bool(edit.new.any())}
        return bool(narrowed) and all(edit.name in narrowed for edit in self.edits)

    def by_swap(self) -> list[tuple[Swap, list[Entry]]]:
        """The entries that change, those of all swaps of one class together."""
        groups: dict[type[Swap], tuple[Swap, list[Entry]]] = {}
        for entry in self.swapped:
            swap = find_swap(entry.unit)
            groups.setdefault(type(swap), (swap, []))[1].append(entry)
        return list(groups.values())

    def to_json(self) -> str:
        """The plan as text that :meth:`from_json` reads."""
        value = to_plain(self)
        for name in NOT_WRITTEN:
            del value[name]
        value["layers"] = {path: _runs(slopes) for path, slopes in self.layers.items()}
        return json.dumps({"gatewise_plan": FORMAT, **value}, default=to_plain)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The plan that :meth:`to_json` wrote; anything else is an error."""
        try:
            value = json.loads(text)
            written = value.pop("gatewise_plan")
            if written != FORMAT:
                raise ValueError(f"it has format {written!r}, this version reads {FORMAT}")
            value["layers"] = {path: _slopes(runs) for path, runs in value["layers"].items()}
            return from_plain(cls, value)
        except (ValueError, TypeError, KeyError, AttributeError) as problem:
            raise ArgumentError(
                f"plan: the text is not one of ours ({problem})",
                got=text,
                fix="pass what Plan.to_json() of this version returned; plan again for older files",
            ) from None

    def check_fits(self, model: nn.Module) -> None:
        """An error, if ``model`` is not in the state that the plan was made for."""
        earlier = Transaction(model).level
        if earlier != self.earlier:
            raise ArgumentError(
                "plan: units were put into the model already, after the plan was made"
                if earlier > self.earlier
                else "plan: was made for the model after earlier swaps",
                got=f"a model with {earlier} earlier swaps",
                allowed=f"a model with {self.earlier}",
                fix="plan again for this model, or gw.undo(model)",
            )
        shapes = signature_of(model)
        if shapes == self.signature:
            return
        names = {**shapes, **self.signature}
        different = [name for name in names if shapes.get(name) != self.signature.get(name)]
        raise ArgumentError(
            "plan: was made for a model with other parameters",
            got=", ".join(sorted(different)[:4]),
            fix="plan again for this model",
        )

    def __str__(self) -> str:
        return plan_as_text(self)


def without_examples(plan: PlanData) -> PlanData:
    """The plan without what is known only while it is in memory, and large."""
    return replace(plan, examples=(), graph=None, sizes=None)


def signature_of(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """Name and shape of every parameter and buffer."""
    tensors = (*model.named_parameters(), *model.named_buffers())
    return {name: tuple(value.shape) for name, value in tensors}


def check_changes_something(plan: PlanData) -> PlanData:
    """``plan``, unless it changes nothing: that is an error, with the reasons."""
    if plan.swapped:
        return plan
    if not plan.refused:
        gates = [entry.site for entry in plan.entries if entry.reason == Reason.GATE.name]
        raise ArgumentError(
            "plan: nothing would change, the activations asked for are gates",
            got=", ".join(gates[:4]),
            fix="gates=True changes them",
        )
    count = len(plan.refused)
    raise ArgumentError(
        "plan: nothing would change, "
        + (f"all {count} sites asked for are" if count > 1 else "the only site asked for is")
        + " refused",
        got=f"{plan.unit}: {in_groups(entry.why for entry in plan.refused)}",
        fix=_fix(plan),
    )


def in_groups(reasons: Iterable[str], most: int = 3) -> str:
    """How often each of the ``most`` frequent reasons is given."""
    counts = Counter(reasons).most_common()
    groups = [f"{count} x {why}" for why, count in counts[:most]]
    if len(counts) > most:
        groups.append(f"and {plural(len(counts) - most, 'other reason')}")
    return "; ".join(groups)


def _fix(plan: PlanData) -> str:
    """What lets sites change that were refused for these reasons."""
    reasons = {Reason[entry.reason] for entry in plan.refused}
    puts_back = any(
        "put_back" in (find_swap(unit).defaults or {}) for unit in plan.unit.split(", ")
    )
    fixes = []
    if Reason.NOT_GLU in reasons:
        fixes.append("hidden='matched'")
    if Reason.NOT_PRESERVED in reasons and plan.preserve:
        fixes.append("preserve=False")
    if puts_back and reasons & {Reason.GATED, Reason.RESIDUAL, Reason.AVERAGED}:
        fixes.append("put_back=True")
    elif reasons & {Reason.GATED, Reason.RESIDUAL}:
        fixes.append("a wider policy ('consumers' < 'gates' < 'streams')")
    return ", or ".join([*fixes, "choose other sites or another unit"])


def _runs(slopes: tuple[float, ...]) -> list[list[float]]:
    """Run lengths: ``[slope, count]`` for each run of equal slopes."""
    runs: list[list[float]] = []
    for slope in slopes:
        if runs and runs[-1][0] == slope:
            runs[-1][1] += 1
        else:
            runs.append([slope, 1])
    return runs


def _slopes(runs: list[list[float]]) -> list[float]:
    slopes: list[float] = []
    for slope, count in runs:
        slopes += [float(slope)] * int(count)
    return slopes
