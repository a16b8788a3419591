"""What do the gates of a model do on data.

How often are they on, which never, which always, which alike?
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from html import escape
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gatewise.analysis.gating.gate_calls import GateSite
from gatewise.analysis.gating.rules import parameters_of
from gatewise.analysis.gating.stream import Progress, SiteStream, each_batch

NEAR_AN_END = 1e-3
MOSTLY = 0.99  # the share of inputs near an end from which on a soft gate is saturated


@dataclass(frozen=True, eq=False)
class SiteGates:
    """The gates of one site, by channel."""

    name: str
    unit: str
    soft: bool
    seen: int  # gates of each channel: inputs times positions
    on_rate: Tensor  # (C,) in float64
    duplicates: tuple[
        tuple[int, ...], ...
    ]  # channels on and off for the same inputs at the same places
    region_entropy: (
        Tensor | None
    )  # (C,) mean entropy of a soft gate in bits: 1 where it is undecided
    saturated: Tensor | None  # (C,) of a soft unit: at one of its ends for nearly all inputs
    parameters: dict[str, Tensor]  # trained numbers of a unit that learns

    @property
    def entropy(self) -> Tensor:
        """What a gate tells of its input, in bits (C,).

        0 where it never changes, 1 where it is on half the time.
        """
        return binary_entropy(self.on_rate)

    @property
    def dead(self) -> tuple[int, ...]:
        """Channels that were never on."""
        return tuple((self.on_rate == 0).nonzero().flatten().tolist())

    @property
    def always_on(self) -> tuple[int, ...]:
        """Channels that were never off: linear on this data."""
        return tuple((self.on_rate == 1).nonzero().flatten().tolist())

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file."""
        return {
            "site": self.name,
            "unit": self.unit,
            "soft": self.soft,
            "channels": len(self.on_rate),
            "seen": self.seen,
            "on_rate": self.on_rate.tolist(),
            "entropy": self.entropy.tolist(),
            "dead": list(self.dead),
            "always_on": list(self.always_on),
            "duplicates": [list(group) for group in self.duplicates],
            "region_entropy": None if self.region_entropy is None else self.region_entropy.tolist(),
            "saturated": None
            if self.saturated is None
            else self.saturated.nonzero().flatten().tolist(),
            "parameters": {name: value.tolist() for name, value in self.parameters.items()},
        }


@dataclass(frozen=True, eq=False)
class Gates:
    """The answer of :func:`gates`, one entry a site."""

    sites: tuple[SiteGates, ...]
    left_out: tuple[str, ...]  # units whose gates are not known, each with the reason

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file."""
        return {"sites": [site.to_dict() for site in self.sites], "left_out": list(self.left_out)}

    def plot(self, axes: Any = None) -> Any:
        """The on-rates of every site's channels.

        A box from the lower to the upper quarter, the median, all extremes.

        Returns the axes.
        """
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(
                figsize=(max(4.0, 0.35 * len(self.sites)), 3.2), layout="constrained"
            ).subplots()
        axes.boxplot([site.on_rate.tolist() for site in self.sites], whis=(0, 100))
        names = [site.name for site in self.sites]
        axes.set_xticks(range(1, len(names) + 1), names, rotation=90, fontsize=6)
        axes.set(ylabel="share of inputs a channel is on for", ylim=(-0.02, 1.02))
        return axes

    def __repr__(self) -> str:
        lines = [
            f"{'site':32} unit         channels  on rate  entropy  dead  always  alike  saturated"
        ]
        for site in self.sites:
            alike = sum(len(group) - 1 for group in site.duplicates)
            saturated = "-" if site.saturated is None else int(site.saturated.sum())
            facts = f"{len(site.on_rate):8}  {float(site.on_rate.mean()):7.3f}  {float(site.entropy.mean()):7.3f}"
            counts = f"{len(site.dead):4}  {len(site.always_on):6}  {alike:5}  {saturated!s:>9}"
            lines.append(f"{site.name[:32]:32} {site.unit[:12]:12} {facts}  {counts}")
        lines += [f"left out: {reason}" for reason in self.left_out]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


def gates(model: nn.Module, batches: Iterable[Any], *, progress: Progress | None = None) -> Gates:
    """How the gates of every unit of ``model`` behave over ``batches``, by site and channel.

    The model is run in eval mode by its graph of calls, so that units may be modules, functions, in
    place, or called several times; each call is a site of its own. What a gate is: Note [Gates]. Of
    a two-phase unit (CReLU) both halves of the output are channels. Memory does not grow with the
    number of batches.

    Args: model: any module. batches: tensors, ``(inputs, labels)`` or dicts of keyword arguments,
        such as a loader gives. progress: called after each batch with how many are done, and of how
        many where the loader has a length.

    A soft gate is saturated where it is within 0.001 of its ends for 99 % of the inputs. Duplicates
    are channels whose gates are on for exactly the same inputs and positions; those that never
    change are not counted among them.
    """
    stream = SiteStream("gates", model)
    totals: dict[str, _Total] = {}

    def tell(site: GateSite, gate: Tensor) -> None:
        totals.setdefault(site.name, _Total(site)).add(gate)

    for inputs, _ in each_batch("gates", batches, progress):
        stream.run(inputs, tell)
    return Gates(tuple(total.result() for total in totals.values()), tuple(stream.left_out))


def binary_entropy(probability: Tensor) -> Tensor:
    """In bits, element by element."""
    return (torch.special.entr(probability) + torch.special.entr(1 - probability)) / np.log(2)


def by_channel(gate: Tensor, dim: int) -> Tensor:
    """One row a channel, everything else along it: (C, seen)."""
    return gate.movedim(dim, 0).flatten(1)


class _Total:
    """Running sums of one site, and a digest of each channel's gates as bits."""

    def __init__(self, site: GateSite) -> None:
        self.site, self.seen = site, 0
        self.on: Tensor | int = 0
        self.undecided: Tensor | int = 0
        self.near: Tensor | int = 0
        self.digests: list[Any] = []

    def add(self, gate: Tensor) -> None:
        rows = by_channel(gate, self.site.dim)
        on = rows if rows.dtype == torch.bool else rows > 0.5
        self.seen += on.shape[1]
        self.on = self.on + on.sum(1).double()
        if self.site.rule.soft:
            self.undecided = self.undecided + binary_entropy(rows.double()).sum(1)
            self.near = self.near + ((rows < NEAR_AN_END) | (rows > 1 - NEAR_AN_END)).sum(1)
        self._digest(on)

    def result(self) -> SiteGates:
        on_rate = torch.as_tensor(self.on / self.seen).cpu()
        entropy = saturated = None
        if self.site.rule.soft:
            entropy = torch.as_tensor(self.undecided / self.seen).cpu()
            saturated = torch.as_tensor(self.near >= MOSTLY * self.seen).cpu()
        parameters = {
            name: each.cpu()
            for name, each in parameters_of(self.site.unit, self.site.module).items()
        }
        return SiteGates(
            self.site.name,
            self.site.unit,
            self.site.rule.soft,
            self.seen,
            on_rate,
            self._duplicates(on_rate),
            entropy,
            saturated,
            parameters,
        )

    def _digest(self, on: Tensor) -> None:
        packed = np.packbits(on.contiguous().cpu().numpy(), axis=1)
        self.digests = self.digests or [blake2b(digest_size=16) for _ in packed]
        for digest, row in zip(self.digests, packed, strict=True):
            digest.update(row.tobytes())

    def _duplicates(self, on_rate: Tensor) -> tuple[tuple[int, ...], ...]:
        groups: dict[bytes, list[int]] = defaultdict(list)
        for channel, (digest, rate) in enumerate(zip(self.digests, on_rate.tolist(), strict=True)):
            if 0 < rate < 1:
                groups[digest.digest()].append(channel)
        return tuple(tuple(group) for group in groups.values() if len(group) > 1)
