"""Edits of parameters and of layer sizes, as plain data."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gatewise.errors import ArgumentError
from gatewise.surgery.propagate.maps import from_runs, to_runs

FILLS = ("zero", "one", "copy", "fresh", "scaled")


@dataclass(frozen=True, eq=False)
class Edit:
    """An edit of the parameter ``name``: entry ``j`` along ``dim`` becomes old entry ``index[j]``.

    ``fill`` says what the new entries (where ``new[j]`` is true) hold:

    - ``"zero"``: zeros, for the columns with which a layer reads new channels.
    - ``"one"``: ones, for the bias of a value that multiplies a gate.
    - ``"copy"``: a copy of the old entry, for everything else. Zero rows times zero columns would
      get no gradient and never train.
    - ``"fresh"``: random numbers with the standard deviation of the old parameter.
    - ``"scaled"``: the old entries times ``factors``, of which there is one for each new entry.
    """

    name: str
    dim: int
    index: Tensor
    new: Tensor
    fill: str
    factors: tuple[float, ...] = ()

    def same_as(self, other: "Edit") -> bool:
        """Whether both edits do the same to the same parameter."""
        return (
            (self.name, self.dim, self.fill, self.factors)
            == (other.name, other.dim, other.fill, other.factors)
            and torch.equal(self.index, other.index)
            and torch.equal(self.new, other.new)
        )

    def apply(self, value: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the edited tensor. ``generator`` draws the entries of the fill ``"fresh"``."""
        result = value.index_select(self.dim, self.index.to(value.device))
        added = self.new.nonzero().flatten().to(value.device)
        if self.fill in ("zero", "one"):
            for entries in self.new_entries(result):
                entries.fill_(float(self.fill == "one"))
        elif self.fill == "scaled":
            result = result * self.scales(result)
        elif self.fill == "fresh" and len(added):
            shape = list(result.shape)
            shape[self.dim] = len(added)
            spread = value.float().std() if value.numel() > 1 else 1.0
            drawn = torch.randn(shape, generator=generator, device="cpu").to(result) * spread
            result.index_copy_(self.dim, added, drawn.to(result))
        return result

    def old_entries(self, value: Tensor) -> Tensor:
        """Return the old entries of ``value``, which was edited before, in their old order."""
        places, olds = self.old_positions()
        kept = select(value, self.dim, places)
        return torch.zeros_like(kept).index_copy_(self.dim, olds.to(value.device), kept)

    def scales(self, value: Tensor) -> Tensor:
        """Return the factor of each entry, in a shape that is broadcast against ``value``."""
        scales = torch.ones(len(self.new), dtype=value.dtype, device="cpu")
        scales[self.new] = torch.tensor(self.factors, dtype=value.dtype, device="cpu")
        shape = [1] * value.dim()
        shape[self.dim] = len(scales)
        return scales.reshape(shape).to(value.device)

    def old_positions(self) -> tuple[Tensor, Tensor]:
        """Return the new positions of the old entries, and their old positions."""
        kept = (~self.new).nonzero().flatten()
        return kept, self.index[kept]

    def new_entries(self, value: Tensor) -> list[Tensor]:
        """Return views of the new entries of ``value``, which was edited before.

        Every view is evenly spaced along ``dim``, so that writing to it changes ``value``.
        """
        return [_run_of(value, self.dim, run) for run in to_runs(self.new.nonzero().flatten())]

    def to_dict(self) -> dict[str, Any]:
        """Return the edit as values that JSON can store."""
        return {
            "name": self.name,
            "dim": self.dim,
            "fill": self.fill,
            "index": to_runs(self.index),
            "new": to_runs(self.new.nonzero().flatten()),
            **({"factors": list(self.factors)} if self.factors else {}),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "Edit":
        """Return the edit that :meth:`to_dict` wrote."""
        if value["fill"] not in FILLS:
            raise ArgumentError("plan: unknown fill", got=value["fill"], allowed=", ".join(FILLS))
        index = from_runs(value["index"])
        new = torch.zeros(len(index), dtype=torch.bool, device="cpu")
        new[from_runs(value["new"])] = True
        factors = tuple(map(float, value.get("factors", ())))
        return cls(str(value["name"]), int(value["dim"]), index, new, value["fill"], factors)


@dataclass(frozen=True)
class Setting:
    """A size attribute of the module at ``path``, before and after the change.

    Only a required setting changes what is computed (the number of groups). The others, such as
    ``in_channels``, are information for people.
    """

    path: str
    attribute: str
    before: int
    after: int
    required: bool = False


def select(value: Tensor, dim: int, places: Tensor) -> Tensor:
    """Return the entries at ``places`` along ``dim``, as a view if they are evenly spaced."""
    runs = to_runs(places)
    if len(runs) == 1 and (runs[0][1] > 0 or runs[0][2] == 1):
        return _run_of(value, dim, runs[0])
    return value.index_select(dim, places.to(value.device))


def _run_of(value: Tensor, dim: int, run: Sequence[int]) -> Tensor:
    """Return the view of an arithmetic run of entries along ``dim``."""
    first, step, count = run
    places = slice(first, first + (count - 1) * step + 1, max(1, step))
    return value[(slice(None),) * dim + (places,)]


def edited(
    value: Tensor, edits: Iterable[Edit], generator: torch.Generator | None = None
) -> Tensor:
    """Return ``value`` after all ``edits``, in the memory format of ``value``."""
    result = value.detach()
    for edit in edits:
        result = edit.apply(result, generator)
    # Weights in channels-last order would otherwise lose it, and with it speed.
    memory_format = torch.contiguous_format
    if value.dim() == 4 and not value.is_contiguous():
        if value.is_contiguous(memory_format=torch.channels_last):
            memory_format = torch.channels_last
    return result.contiguous(memory_format=memory_format)
