"""How many gates differ between two models, or between data and its augmentation."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from torch import Tensor, nn

from gatewise.analysis.gating.channels import ChannelSums, by_channel, is_on
from gatewise.analysis.gating.gate_calls import GateSite
from gatewise.analysis.gating.stream import SiteStream
from gatewise.analysis.record import AnalysisResult, PlottedResult, label_places
from gatewise.batches import Progress, read_batches
from gatewise.errors import ArgumentError
from gatewise.results import plain_values


@dataclass(frozen=True, eq=False)
class SiteFlips(AnalysisResult):
    """The gates of one site in both models, for each of its C channels.

    Attributes:
        name: The name of the site.
        flip_rate: The share of gates that are on in one model and off in the other, (C,).
        on_rates: The share of gates that are on in the first and in the second model, (C,).
    """

    name: str
    flip_rate: Tensor
    on_rates: tuple[Tensor, Tensor]

    _renamed = MappingProxyType({"name": "site"})
    _omitted = ("on_rates",)
    _properties = ("chance",)

    @property
    def chance(self) -> Tensor:
        """The flip rate of independent gates with these on-rates, (C,)."""
        first, second = self.on_rates
        return first * (1 - second) + second * (1 - first)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a file, with one entry for the on-rates of each model."""
        first, second = plain_values(self.on_rates)
        return super().to_dict() | {"on_rate_first": first, "on_rate_second": second}


@dataclass(frozen=True, eq=False)
class GateFlips(PlottedResult):
    """The result of :func:`gate_flips`, with one entry for each site."""

    sites: tuple[SiteFlips, ...]

    def _figure_size(self) -> tuple[float, float]:
        return max(4.0, 0.35 * len(self.sites)), 3.0

    def _draw(self, axes: Any) -> None:
        """Draw the mean flip rate of each site, and that of independent gates."""
        flipped = [float(site.flip_rate.mean()) for site in self.sites]
        chance = [float(site.chance.mean()) for site in self.sites]
        axes.plot(flipped, "o-", label="flipped")
        axes.plot(chance, "x:", color="grey", label="by chance")
        label_places(axes, self.sites)
        axes.set(ylabel="share of gates")
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=7)

    def __str__(self) -> str:
        lines = [f"{'site':32} channels  flipped  by chance"]
        for site in self.sites:
            means = f"{float(site.flip_rate.mean()):7.3f}  {float(site.chance.mean()):9.3f}"
            lines.append(f"{site.name[:32]:32} {len(site.flip_rate):8}  {means}")
        return "\n".join(lines)


def gate_flips(
    model: nn.Module,
    other: nn.Module,
    batches: Iterable[Any],
    *,
    transform: Callable[[Any], Any] | None = None,
    progress: Progress | None = None,
) -> GateFlips:
    """Compare the gates of two models for the same inputs and positions.

    Two checkpoints of a run show how much its gates still change. Two seeds show how much gates
    depend on chance: compare with :attr:`SiteFlips.chance`, since the channels of two seeds do not
    correspond.

    Args:
        model: The first model.
        other: The second model, with the same sites and channels.
        batches: As in :func:`gates`.
        transform: Applied to the inputs of the second model. With the same model twice this shows
            how stable its gates are under an augmentation.
        progress: As in :func:`gates`.

    Raises:
        ArgumentError: The two models do not have the same gates.
    """
    first = SiteStream("gate_flips", model)
    second = SiteStream("gate_flips", other)
    return flips_between(first, second, batches, transform=transform, progress=progress)


def flips_between(
    first: SiteStream,
    second: SiteStream,
    batches: Iterable[Any],
    *,
    transform: Callable[[Any], Any] | None = None,
    progress: Progress | None = None,
) -> GateFlips:
    """Do the same as :func:`gate_flips`, for models whose graphs were read before.

    Args:
        first: The first model. Other weights may have been loaded into it since it was read.
        second: The second model, likewise.
        batches: As in :func:`gates`.
        transform: As in :func:`gate_flips`.
        progress: As in :func:`gates`.
    """
    totals: dict[str, ChannelSums] = {}
    for call in read_batches("gate_flips", first.model, batches, progress):
        inputs = call.example
        ours = _gates_on(first, inputs)
        theirs = _gates_on(second, inputs if transform is None else transform(inputs))
        _check_same(ours, theirs)  # in every batch, since its size may change the graph
        for name, on in ours.items():
            total = totals.setdefault(name, ChannelSums())
            total.add(flipped=on ^ theirs[name], first=on, second=theirs[name])
    sites = []
    for name, total in totals.items():
        on_rates = total.mean("first"), total.mean("second")
        sites.append(SiteFlips(name, total.mean("flipped"), on_rates))
    return GateFlips(tuple(sites))


def _gates_on(stream: SiteStream, inputs: Any) -> dict[str, Tensor]:
    """Return which gates are on, as rows (C, n) for each site."""
    sites: dict[str, Tensor] = {}

    def keep(site: GateSite, gate: Tensor) -> None:
        sites[site.name] = by_channel(is_on(gate), site.dim)

    stream.run(inputs, keep)
    return sites


def _check_same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    first = [(name, *rows.shape) for name, rows in ours.items()]
    second = [(name, *rows.shape) for name, rows in theirs.items()]
    if first != second:
        differing = sorted({name for name, *_ in set(first) ^ set(second)}) or ["their order"]
        raise ArgumentError(
            "gate_flips: the two models do not have the same gates",
            got=f"they differ in {', '.join(differing)}",
            allowed="the same sites, channels and positions",
        )
