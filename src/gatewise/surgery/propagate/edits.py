"""What surgery does besides putting units in.

Parameters indexed along a dimension, sizes written anew.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gatewise.errors import ArgumentError
from gatewise.surgery.propagate.maps import from_runs, to_runs

FILLS = ("zero", "copy", "fresh")


@dataclass(frozen=True, eq=False)
class Edit:
    """Parameter ``name``: along ``dim``, entry ``j`` becomes old entry ``index[j]``.

    Where ``new[j]``, see ``fill``.

    ``"zero"``: zero, for a reader's new columns; ``"copy"``: the copy stays, for everything else
    (zero rows times zero columns would never train); ``"fresh"``: drawn anew with the spread of the
    old entries.
    """

    name: str
    dim: int
    index: Tensor
    new: Tensor
    fill: str

    def same_as(self, other: "Edit") -> bool:
        """Whether both do the same to the same parameter."""
        mine, theirs = (self.name, self.dim, self.fill), (other.name, other.dim, other.fill)
        return (
            mine == theirs
            and torch.equal(self.index, other.index)
            and torch.equal(self.new, other.new)
        )

    def apply(self, value: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The edited tensor."""
        made = value.index_select(self.dim, self.index.to(value.device))
        added = self.new.nonzero().flatten().to(value.device)
        if self.fill == "zero":
            for entries in self.new_entries(made):
                entries.zero_()
        elif self.fill == "fresh" and len(added):
            shape = list(made.shape)
            shape[self.dim] = len(added)
            drawn = torch.randn(shape, generator=generator) * (
                value.float().std() if value.numel() > 1 else 1.0
            )
            made.index_copy_(self.dim, added, drawn.to(made))
        return made

    def old_positions(self) -> tuple[Tensor, Tensor]:
        """Where the old entries are now, and which ones they are."""
        kept = (~self.new).nonzero().flatten()
        return kept, self.index[kept]

    def new_entries(self, value: Tensor) -> list[Tensor]:
        """Views of the new entries of ``value``, which is edited already, each evenly spaced along ``dim``."""
        return [_run_of(value, self.dim, run) for run in to_runs(self.new.nonzero().flatten())]

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        added = self.new.nonzero().flatten()
        return {
            **{"name": self.name, "dim": self.dim, "fill": self.fill},
            **{"index": to_runs(self.index), "new": to_runs(added)},
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "Edit":
        """The edit that :meth:`to_dict` wrote."""
        if value["fill"] not in FILLS:
            raise ArgumentError("plan: unknown fill", got=value["fill"], allowed=", ".join(FILLS))
        index = from_runs(value["index"])
        new = torch.zeros(len(index), dtype=torch.bool)
        new[from_runs(value["new"])] = True
        return cls(str(value["name"]), int(value["dim"]), index, new, value["fill"])


@dataclass(frozen=True)
class Setting:
    """The module at ``path``: its size ``attribute`` was ``before`` and becomes ``after``.

    Only a required one changes what is computed (the number of groups); the others are there to be
    read by people.
    """

    path: str
    attribute: str
    before: int
    after: int
    required: bool = False


def select(value: Tensor, dim: int, places: Tensor) -> Tensor:
    """The entries at ``places`` along ``dim``: a view where they are evenly spaced."""
    runs = to_runs(places)
    even = len(runs) == 1 and (runs[0][1] > 0 or runs[0][2] == 1)
    return (
        _run_of(value, dim, runs[0]) if even else value.index_select(dim, places.to(value.device))
    )


def _run_of(value: Tensor, dim: int, run: Sequence[int]) -> Tensor:
    first, step, count = run
    places = slice(first, first + (count - 1) * step + 1, max(1, step))
    return value[(slice(None),) * dim + (places,)]


def edited(
    value: Tensor, edits: Iterable[Edit], generator: torch.Generator | None = None
) -> Tensor:
    """``value`` after all ``edits``, in the memory format it had."""
    made = value.detach()
    for edit in edits:
        made = edit.apply(made, generator)
    last = (
        value.dim() == 4
        and value.is_contiguous(memory_format=torch.channels_last)
        and not value.is_contiguous()
    )
    return made.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
