"""Change a model so that it can be changed back: every replaced object is kept, in order."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from gatewise.errors import ArgumentError

RECORD = "_gatewise_swap"  # on the model: what was done to it
DEPLOYED = "_gatewise_deployed"  # on a deployed model: its receipt


@dataclass(frozen=True)
class Change:
    """``name`` of the module at ``path`` was ``old``."""

    path: str
    name: str
    old: Any
    kind: str  # "parameter", "buffer", "module" or "attribute"

    def take_back(self, model: nn.Module) -> None:
        """Put the old object back where it was."""
        put(model.get_submodule(self.path), self.name, self.old, self.kind)


@dataclass
class Transaction:
    """Changes made to one model so far."""

    model: nn.Module
    changes: list[Change] = field(default_factory=list)
    units: dict[str, nn.Module] = field(default_factory=dict)  # put in, by site
    others: list[Callable[[], None]] = field(
        default_factory=list
    )  # how to take back what is no change of ours

    def replace(self, path: str, name: str, new: Any, kind: str) -> None:
        """Put ``new`` in place of ``name`` of the module at ``path``."""
        home = self.model.get_submodule(path)
        self.changes.append(Change(path, name, held(home, name, kind), kind))
        put(home, name, new, kind)

    def roll_back(self) -> None:
        """Everything as it was, the last change first."""
        for take_back in reversed(self.others):
            take_back()
        for change in reversed(self.changes):
            change.take_back(self.model)
        self.changes.clear()
        self.others.clear()


def held(home: nn.Module, name: str, kind: str) -> Any:
    """What ``home`` holds under ``name``, as it is stored."""
    if kind == "attribute":
        return getattr(home, name)
    return {"parameter": home._parameters, "buffer": home._buffers, "module": home._modules}[kind][
        name
    ]


def put(home: nn.Module, name: str, value: Any, kind: str) -> None:
    """Store ``value`` under ``name``, in the place it has in torch's own tables, so that no order changes."""
    if kind == "attribute":
        setattr(home, name, value)
    else:
        {"parameter": home._parameters, "buffer": home._buffers, "module": home._modules}[kind][
            name
        ] = value


def place_of(model: nn.Module, name: str) -> tuple[str, str, str, Tensor]:
    """Path of the owner, own name, kind and value of the parameter or buffer called ``name``."""
    path, _, own = name.rpartition(".")
    home = model.get_submodule(path)
    kind = "parameter" if own in home._parameters else "buffer"
    value = held(home, own, kind)
    if value is None:
        raise ArgumentError(
            "plan: the model has no such parameter", got=name, fix="plan again for this model"
        )
    return path, own, kind, value


def check_not_swapped(model: nn.Module) -> None:
    """An error, if units were put into ``model`` already."""
    if isinstance(model, nn.Module) and RECORD in model.__dict__:
        raise ArgumentError(
            "model: units were put into it already",
            got=str(model.__dict__[RECORD].receipt.unit),
            fix="gw.undo(model) first, or plan for the original with all changes in one plan",
        )
