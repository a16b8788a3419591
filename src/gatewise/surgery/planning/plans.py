"""A plan: every site, what happens to it or why not, and all that has to be edited.

Plain data, to be kept.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from torch import nn

from gatewise.errors import ArgumentError
from gatewise.surgery.propagate.edits import Edit, Setting
from gatewise.surgery.reasons import Reason
from gatewise.surgery.swaps.put_back import PutBack

FORMAT = 1
MADE_FROM = ("example", "graph", "sizes")  # kept with a plan, not written


@dataclass(frozen=True)
class Entry:
    """One site in a plan. ``change`` is ``"swap"``, ``"refuse"`` or ``"leave"`` (not selected)."""

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
    options: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""  # a name of Reason
    detail: str = ""
    call: Mapping[str, Any] | None = None  # where a functional or reused call stands, as recorded
    shared: bool = False
    bindings: tuple[
        Mapping[str, Any], ...
    ] = ()  # of units that see the layer before them: where both are called
    moved: bool = (
        False  # nothing is left at the site: its units are in the branches that are added before it
    )

    @property
    def why(self) -> str:
        """The reason in words."""
        words = Reason[self.reason].value if self.reason else ""
        return f"{words} ({self.detail})" if self.detail else words


@dataclass(frozen=True)
class Plan:
    """What :func:`gatewise.plan` found.

    Print it, keep it with :meth:`to_json`, do it with :meth:`apply`.
    """

    unit: str
    width: str
    preserve: bool
    policy: str
    entries: tuple[Entry, ...]
    edits: tuple[Edit, ...]
    settings: tuple[Setting, ...]
    layers: Mapping[str, tuple[float, ...]]  # phase selective ones: a slope for each input channel
    parameters: tuple[int, int]  # before, after
    operations: tuple[int, int]
    signature: Mapping[str, tuple[int, ...]]  # shape of every parameter and buffer it was made for
    notes: tuple[str, ...] = ()
    put_back: tuple[
        PutBack, ...
    ] = ()  # activations that phase selective layers leave to some of the readers
    example: Any = field(
        default=None, compare=False, repr=False
    )  # neither is written: what it was made from
    graph: Any = field(default=None, compare=False, repr=False)
    sizes: Any = field(
        default=None, compare=False, repr=False
    )  # of each layer's output on that example

    @property
    def swapped(self) -> tuple[Entry, ...]:
        """The sites that change."""
        return tuple(entry for entry in self.entries if entry.change == "swap")

    @property
    def refused(self) -> tuple[Entry, ...]:
        """The sites that were asked for and cannot change."""
        return tuple(entry for entry in self.entries if entry.change == "refuse")

    def apply(
        self, model: nn.Module, *, inplace: bool = True, example: Any = None, optimizer: Any = None
    ) -> nn.Module:
        """Do it to ``model``, which must have the shapes the plan was made for, and prove it on ``example``.

        Without an example (neither here nor from planning) nothing is proved, and the receipt says so. If anything
        fails, the model is given back as it was. An ``optimizer`` of the model is carried over: groups and state.
        """
        from gatewise.surgery.rewrite.applying import apply_plan

        example = self.example if example is None else example
        return apply_plan(self, model, inplace=inplace, example=example, optimizer=optimizer)

    def to_json(self) -> str:
        """As text that :meth:`from_json` reads."""
        value = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name not in MADE_FROM
        }
        value["entries"] = [asdict(entry) for entry in self.entries]
        value["edits"] = [edit.to_dict() for edit in self.edits]
        value["settings"] = [asdict(setting) for setting in self.settings]
        value["put_back"] = [asdict(each) for each in self.put_back]
        value["layers"] = {path: _runs(slopes) for path, slopes in self.layers.items()}
        return json.dumps({"gatewise_plan": FORMAT, **value})

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """The plan that :meth:`to_json` wrote; anything else is an error."""
        try:
            value = json.loads(text)
            if value.pop("gatewise_plan") != FORMAT:
                raise ValueError("another format")
            value["entries"] = tuple(_entry(each) for each in value["entries"])
            value["edits"] = tuple(Edit.from_dict(each) for each in value["edits"])
            value["settings"] = tuple(Setting(**each) for each in value["settings"])
            value["put_back"] = tuple(PutBack.from_dict(each) for each in value.get("put_back", ()))
            value["layers"] = {path: _unrolled(runs) for path, runs in value["layers"].items()}
            value["signature"] = {name: tuple(shape) for name, shape in value["signature"].items()}
            for name in ("parameters", "operations", "notes"):
                value[name] = tuple(value[name])
            return cls(**value)
        except (ValueError, TypeError, KeyError, AttributeError) as problem:
            raise ArgumentError(
                f"plan: the text is not one of ours ({problem})",
                got=text,
                fix="pass what Plan.to_json() gave",
            ) from None

    def check_fits(self, model: nn.Module) -> None:
        """An error, if ``model`` does not have the parameters the plan was made for."""
        if (found := signature_of(model)) != self.signature:
            names = [
                name
                for name in {**found, **self.signature}
                if found.get(name) != self.signature.get(name)
            ]
            raise ArgumentError(
                "plan: was made for a model with other parameters",
                got=", ".join(sorted(names)[:4]),
                fix="plan again for this model",
            )

    def __str__(self) -> str:
        from gatewise.surgery.planning.show import plan_as_text

        return plan_as_text(self)


def signature_of(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """Name and shape of every parameter and buffer."""
    tensors = (*model.named_parameters(), *model.named_buffers())
    return {name: tuple(value.shape) for name, value in tensors}


def check_changes_something(plan: Plan) -> Plan:
    """``plan``, unless it changes nothing: that is an error, with the reasons."""
    if plan.swapped:
        return plan
    reasons = Counter(Reason[entry.reason].value for entry in plan.refused)
    raise ArgumentError(
        f"plan: nothing would change, all {len(plan.refused)} sites asked for are refused",
        got=f"{plan.unit}: "
        + "; ".join(f"{count} x {words}" for words, count in reasons.most_common()),
        fix="choose other sites, another unit or a wider policy ('consumers' < 'gates' < 'streams')"
        + (", or do not preserve" if plan.preserve else ""),
    )


def _entry(value: Mapping[str, Any]) -> Entry:
    made: dict[str, Any] = {
        name: tuple(each) if isinstance(each, list) else each for name, each in value.items()
    }
    if made["change"] not in ("swap", "refuse", "leave") or (
        made["reason"] and made["reason"] not in Reason.__members__
    ):
        raise ValueError("an entry with an unknown change or reason")
    return Entry(**made)


def _runs(slopes: tuple[float, ...]) -> list[list[float]]:
    runs: list[list[float]] = []
    for slope in slopes:
        if runs and runs[-1][0] == slope:
            runs[-1][1] += 1
        else:
            runs.append([slope, 1])
    return runs


def _unrolled(runs: list[list[float]]) -> tuple[float, ...]:
    return tuple(float(slope) for slope, count in runs for _ in range(int(count)))
