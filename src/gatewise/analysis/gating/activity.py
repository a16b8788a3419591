"""How often gates are on, and which channels are dead, always off or on, alike or saturated."""

from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.gating.channels import (
    ChannelDigests,
    ChannelSums,
    binary_entropy,
    by_channel,
    is_on,
)
from gatewise.analysis.gating.gate_calls import GateSite
from gatewise.analysis.gating.rules import parameters_of
from gatewise.analysis.gating.stream import SiteStream
from gatewise.analysis.record import AnalysisResult, PlottedResult, label_places
from gatewise.batches import Progress, read_batches
from gatewise.graph import ChannelRange, dead_channels
from gatewise.results import plain_values

NEAR_AN_END = 1e-3  # a soft gate this close to 0 or 1 is at its end
MOSTLY = 0.99  # a soft gate that is at its end for this share of the inputs is saturated


@dataclass(frozen=True, eq=False)
class SiteGates(AnalysisResult):
    """The gates of one site, for each of its C channels.

    Attributes:
        name: The name of the site.
        unit: The unit.
        soft: Whether gates are numbers from 0 to 1, not on or off.
        on: What it means that a gate is on, as the unit declares it.
        seen: The number of gates of each channel: inputs times positions.
        on_rate: The share of gates that are on, of shape (C,) in float64.
        dead: Channels whose output is constant and whose slope is zero there, so that nothing
            passes forward or backward. See Note [Dead].
        constant: Channels whose output is constant, the dead ones among them.
        first_only: Channels that are on, or off, at the first position of sequences and nowhere
            else.
        duplicates: Groups of channels that are on for the same inputs at the same positions. Their
            values may differ. Those of ``first_only`` are not among them.
        region_entropy: The mean entropy of a soft gate in bits, (C,): 1 where it is undecided.
        saturated: Whether a soft gate is at one of its ends for almost all inputs, (C,).
        parameters: The trained parameters of the unit.
    """

    name: str
    unit: str
    soft: bool
    on: str
    seen: int
    on_rate: Tensor
    dead: tuple[int, ...]
    constant: tuple[int, ...]
    first_only: tuple[int, ...]
    duplicates: tuple[tuple[int, ...], ...]
    region_entropy: Tensor | None
    saturated: Tensor | None
    parameters: dict[str, Tensor]

    _renamed = MappingProxyType({"name": "site"})
    _properties = ("channels", "entropy", "always_off", "always_on")

    @property
    def channels(self) -> int:
        """The number of channels."""
        return len(self.on_rate)

    @property
    def entropy(self) -> Tensor:
        """The entropy of each gate in bits, (C,).

        It is 0 for a gate that never changes and 1 for a gate that is on half the time.
        """
        return binary_entropy(self.on_rate)

    @property
    def always_off(self) -> tuple[int, ...]:
        """Channels that were never on and are not dead: they still pass something."""
        return tuple(place for place in _places(self.on_rate == 0) if place not in self.dead)

    @property
    def always_on(self) -> tuple[int, ...]:
        """Channels that were never off and are not dead: linear, if the gate is hard."""
        return tuple(place for place in _places(self.on_rate == 1) if place not in self.dead)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a file, with the numbers of saturated channels."""
        saturated = None if self.saturated is None else _places(self.saturated)
        return super().to_dict() | {"saturated": plain_values(saturated)}


@dataclass(frozen=True, eq=False)
class Gates(PlottedResult):
    """The result of :func:`gates`.

    Attributes:
        sites: The gates of each site.
        left_out: Units whose gates are not known, each with the reason.
    """

    sites: tuple[SiteGates, ...]
    left_out: tuple[str, ...]

    def _figure_size(self) -> tuple[float, float]:
        return max(4.0, 0.35 * len(self.sites)), 3.2

    def _draw(self, axes: Any) -> None:
        """Draw a box plot of the on-rates of each site."""
        # Whiskers over the whole range, so that dead channels can be seen.
        axes.boxplot([site.on_rate.tolist() for site in self.sites], whis=(0, 100))
        label_places(axes, self.sites, start=1)
        axes.set(ylabel="share of inputs on which a channel fires", ylim=(-0.02, 1.02))

    def __str__(self) -> str:
        lines = [
            f"{'site':32} unit         channels  on rate  entropy  dead  always off  always on  "
            "alike  saturated"
        ]
        for site in self.sites:
            alike = sum(len(group) - 1 for group in site.duplicates)
            saturated = "-" if site.saturated is None else int(site.saturated.sum())
            on_rate = float(site.on_rate.mean())
            entropy = float(site.entropy.mean())
            line = f"{site.name[:32]:32} {site.unit[:12]:12} {len(site.on_rate):8}  {on_rate:7.3f}"
            line += f"  {entropy:7.3f}  {len(site.dead):4}  {len(site.always_off):10}"
            lines.append(f"{line}  {len(site.always_on):9}  {alike:5}  {saturated!s:>9}")
        lines += [f"left out: {reason}" for reason in self.left_out]
        return "\n".join(lines)


def gates(model: nn.Module, batches: Iterable[Any], *, progress: Progress | None = None) -> Gates:
    """Measure how the gates of every unit of ``model`` behave, for each site and channel.

    The model runs in eval mode by its graph of calls, so that units may be modules, functions,
    in place, or called several times. Each call is a site. What a gate is: Note [Gates]. For a
    two-sided unit (CReLU), both halves of the output are channels. Memory does not grow with the
    number of batches.

    A channel is dead if its output is constant and its slope zero there, and always off if its gate
    is never on but something passes, as with leaky ReLU. A soft gate is saturated where it is
    within 0.001 of its ends for 99 % of the inputs. Duplicates are channels whose gates are on for
    exactly the same inputs and positions; their values may differ. Gates that never change, or that
    change only at the first position of sequences, are not among them: trained language models have
    channels that only tell the first token from the others.

    Positions that an ``attention_mask`` among the inputs sets to zero are padding and do not count.
    A sigmoid that makes the model's output is no hidden layer and is left out.

    Args:
        model: Any module.
        batches: Tensors, ``(inputs, labels)`` or dicts of keyword arguments, e.g. a data loader.
        progress: Called after each batch with the number of batches that are done, and of how
            many if the loader has a length.

    Raises:
        NotApplicableError: No unit of the model has a known gate, or a response is not finite.
    """
    stream = SiteStream("gates", model)
    totals: dict[str, _SiteTotals] = {}

    mask: Tensor | None = None

    def add_response(site: GateSite, response: Tensor) -> None:
        if site.name not in totals:
            totals[site.name] = _SiteTotals(site, response.dim())
        _add_range(totals[site.name].responses, response, mask)

    def add_gate(site: GateSite, gate: Tensor) -> None:
        totals[site.name].add(gate, mask)

    def add_output(site: GateSite, output: Tensor) -> None:
        _add_range(totals[site.name].outputs, output, mask)

    for call in read_batches("gates", model, batches, progress):
        mask = call.mask
        stream.run(call.example, add_gate, add_output, add_response)
    return Gates(tuple(total.result() for total in totals.values()), tuple(stream.left_out))


def first_positions(gate: Tensor, dim: int, mask: Tensor | None) -> Tensor | None:
    """Return which positions are the first of their sequence, in the order of ``without_padding``.

    Args:
        gate: of shape (inputs, positions, channels) for sequences.
        dim: the dimension of the channels.
        mask: 0 at padded positions, of shape (inputs, positions).

    Returns:
        One truth value for each position that counts; ``None`` if there are no sequences.
    """
    if gate.dim() != 3 or dim % 3 != 2 or gate.shape[1] < 2:
        return None
    counts = torch.ones(gate.shape[:2], dtype=torch.bool, device=gate.device)
    if mask is not None and mask.shape == counts.shape:
        counts = mask.bool()
    return (counts.cumsum(1) == 1)[counts]


def without_padding(gate: Tensor, dim: int, mask: Tensor | None) -> tuple[Tensor, int]:
    """Return gates without those at padded positions, and the dimension of their channels.

    Args:
        gate: of shape (inputs, positions, ...) where a mask applies.
        dim: the dimension of the channels.
        mask: 0 at padded positions, of shape (inputs, positions).
    """
    dim %= gate.dim()
    if mask is None or mask.dim() != 2 or dim < 2 or gate.shape[:2] != mask.shape:
        return gate, dim
    return gate[mask.bool()], dim - 1


class _SiteTotals:
    """Running sums of one site."""

    def __init__(self, site: GateSite, rank: int) -> None:
        self.site = site
        self.responses = ChannelRange(site.dim, rank)
        self.outputs = ChannelRange(site.dim, rank)
        self.sums = ChannelSums()
        self.digests = ChannelDigests()

    def add(self, gate: Tensor, mask: Tensor | None) -> None:
        rows = by_channel(*without_padding(gate, self.site.dim, mask))
        on = is_on(rows)
        quantities = {"on": on}
        first = first_positions(gate, self.site.dim, mask)
        if first is not None:
            quantities["later on"] = on & ~first
            quantities["later off"] = ~on & ~first
        if self.site.rule.soft:
            quantities["entropy"] = binary_entropy(rows.double())
            quantities["at_end"] = (rows < NEAR_AN_END) | (rows > 1 - NEAR_AN_END)
        self.sums.add(**quantities)
        self.digests.add(on)

    def result(self) -> SiteGates:
        site = self.site
        on_rate = self.sums.mean("on")
        first_only: tuple[int, ...] = ()
        if "later on" in self.sums.sums:
            same = (self.sums.mean("later on") == 0) | (self.sums.mean("later off") == 0)
            first_only = _places(same & (on_rate > 0) & (on_rate < 1))
        entropy = saturated = None
        if site.rule.soft:
            entropy = self.sums.mean("entropy")
            saturated = (self.sums.sums["at_end"] >= MOSTLY * self.sums.seen).cpu()
        parameters = parameters_of(site.unit, site.module)
        return SiteGates(
            name=site.name,
            unit=site.unit,
            soft=site.rule.soft,
            on=site.rule.on,
            seen=self.sums.seen,
            on_rate=on_rate,
            dead=_places(dead_channels(site.rule.slope, self.responses, self.outputs)),
            constant=_places(self.outputs.constant()),
            first_only=first_only,
            duplicates=self.digests.duplicates(on_rate, first_only),
            region_entropy=entropy,
            saturated=saturated,
            parameters={name: value.cpu() for name, value in parameters.items()},
        )


def _add_range(total: ChannelRange, values: Tensor, mask: Tensor | None) -> None:
    total.add(*without_padding(values, total.dim, mask))


def _places(mask: Tensor) -> tuple[int, ...]:
    return tuple(mask.nonzero().flatten().tolist())
