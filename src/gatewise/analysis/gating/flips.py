"""How many gates differ between two models on the same data, or of one model on data and its augmentation?"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.gating.activity import by_channel
from gatewise.analysis.gating.gate_calls import GateSite
from gatewise.analysis.gating.stream import Progress, SiteStream, each_batch
from gatewise.errors import ArgumentError


@dataclass(frozen=True, eq=False)
class SiteFlips:
    """The gates of one site in both."""

    name: str
    flip_rate: Tensor  # (C,) share of gates that are on in one and off in the other
    on_rates: tuple[Tensor, Tensor]  # (C,) in the first and in the second

    @property
    def chance(self) -> Tensor:
        """The flip rate of gates with these on-rates that know nothing of each other (C,)."""
        first, second = self.on_rates
        return first * (1 - second) + second * (1 - first)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file."""
        return {
            "site": self.name,
            "flip_rate": self.flip_rate.tolist(),
            "chance": self.chance.tolist(),
            "on_rate_first": self.on_rates[0].tolist(),
            "on_rate_second": self.on_rates[1].tolist(),
        }


@dataclass(frozen=True, eq=False)
class GateFlips:
    """The answer of :func:`gate_flips`, one entry a site."""

    sites: tuple[SiteFlips, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file."""
        return {"sites": [site.to_dict() for site in self.sites]}

    def plot(self, axes: Any = None) -> Any:
        """The mean flip rate of every site, and that of chance; returns the axes."""
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(
                figsize=(max(4.0, 0.35 * len(self.sites)), 3.0), layout="constrained"
            ).subplots()
        names = [site.name for site in self.sites]
        axes.plot([float(site.flip_rate.mean()) for site in self.sites], "o-", label="flipped")
        axes.plot(
            [float(site.chance.mean()) for site in self.sites],
            "x:",
            color="grey",
            label="by chance",
        )
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=6)
        axes.set(ylabel="share of gates")
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=7)
        return axes

    def __repr__(self) -> str:
        lines = [f"{'site':32} channels  flipped  by chance"]
        for site in self.sites:
            means = f"{float(site.flip_rate.mean()):7.3f}  {float(site.chance.mean()):9.3f}"
            lines.append(f"{site.name[:32]:32} {len(site.flip_rate):8}  {means}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


def gate_flips(
    model: nn.Module,
    other: nn.Module,
    batches: Iterable[Any],
    *,
    transform: Callable[[Any], Any] | None = None,
    progress: Progress | None = None,
) -> GateFlips:
    """The share of gates that are on in one of two models and off in the other, for the same inputs and positions.

    Two checkpoints of a run say how much its gates still move, two seeds how much they are a matter of chance: for
    these compare with :attr:`SiteFlips.chance`, since channels of two seeds do not correspond. With ``transform`` the
    second model is given ``transform(inputs)``: the same model twice then says how steady its gates are under an
    augmentation. The models must have the same sites with as many channels. Batches as in :func:`gates`.
    """
    return flips_between(
        SiteStream("gate_flips", model),
        SiteStream("gate_flips", other),
        batches,
        transform=transform,
        progress=progress,
    )


def flips_between(
    first: SiteStream,
    second: SiteStream,
    batches: Iterable[Any],
    *,
    transform: Callable[[Any], Any] | None = None,
    progress: Progress | None = None,
) -> GateFlips:
    """The same of models that are read already: weights may have been put into them since."""
    totals: dict[str, _Total] = {}
    for inputs, _ in each_batch("gate_flips", batches, progress):
        ours = {name: rows for name, rows in _on(first, inputs)}
        changed = inputs if transform is None else transform(inputs)
        theirs = {name: rows for name, rows in _on(second, changed)}
        _check_same(ours, theirs)
        for name, rows in ours.items():
            totals.setdefault(name, _Total()).add(rows, theirs[name])
    return GateFlips(tuple(total.result(name) for name, total in totals.items()))


def _on(stream: SiteStream, inputs: Any) -> list[tuple[str, Tensor]]:
    found: list[tuple[str, Tensor]] = []

    def tell(site: GateSite, gate: Tensor) -> None:
        on = gate if gate.dtype == torch.bool else gate > 0.5
        found.append((site.name, by_channel(on, site.dim)))

    stream.run(inputs, tell)
    return found


def _check_same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    first, second = (
        [(name, *rows.shape) for name, rows in each.items()] for each in (ours, theirs)
    )
    if first != second:
        differing = sorted({name for name, *_ in set(first) ^ set(second)}) or ["their order"]
        raise ArgumentError(
            "gate_flips: the two models do not have the same gates",
            got=f"they differ in {', '.join(differing)}",
            allowed="the same sites, channels and positions",
        )


class _Total:
    def __init__(self) -> None:
        self.seen = 0
        self.sums: Tensor | int = 0  # (3, C): flipped, on in the first, on in the second

    def add(self, first: Tensor, second: Tensor) -> None:
        self.seen += first.shape[1]
        self.sums = (
            self.sums
            + torch.stack([each.sum(1) for each in (first ^ second, first, second)]).double()
        )

    def result(self, name: str) -> SiteFlips:
        flipped, first, second = torch.as_tensor(self.sums / self.seen).cpu()
        return SiteFlips(name, flipped, (first, second))
