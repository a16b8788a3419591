"""What is measured at each site, and the sums that it is computed from."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gatewise.analysis.gating import MOSTLY, NEAR_AN_END, Rule, is_on
from gatewise.analysis.record import AnalysisResult
from gatewise.graph import ChannelRange, dead_channels


@dataclass(frozen=True, eq=False)
class SiteActivity(AnalysisResult):
    """The units of one site on the probe, by the number of their channel.

    Attributes:
        name: The name of the site.
        unit: The name of the activation.
        channels: The number of units.
        on_rate: The share of gates that are on, of shape (channels,).
        dead: Units whose output is constant and whose slope is zero there: nothing passes, forward
            or backward.
        always_off: Units that were never on, and pass something all the same.
        always_on: Units that were never off and are not dead.
        dormant: Units whose mean absolute output is a small share of the mean over the site.
        saturated: Units whose soft gate is at one of its ends for almost all inputs. ``None``
            for an activation that is only on or off.
    """

    name: str
    unit: str
    channels: int
    on_rate: Tensor
    dead: tuple[int, ...]
    always_off: tuple[int, ...]
    always_on: tuple[int, ...]
    dormant: tuple[int, ...]
    saturated: tuple[int, ...] | None

    def scalars(self) -> dict[str, float]:
        """Return the mean on-rate and the shares of dead, always-off, dormant units and so on."""
        shares = {"on_rate": float(self.on_rate.mean())}
        for name in ("dead", "always_off", "always_on", "dormant", "saturated"):
            units = getattr(self, name)
            if units is not None:
                shares[name] = len(units) / self.channels
        return shares

    def counts(self) -> dict[str, Any]:
        """Return the mean on-rate and the numbers of units, as a row of a table."""
        return {
            "site": self.name,
            "unit": self.unit,
            "channels": self.channels,
            "on_rate": float(self.on_rate.mean()),
            "dead": len(self.dead),
            "always_off": len(self.always_off),
            "always_on": len(self.always_on),
            "dormant": len(self.dormant),
            "saturated": None if self.saturated is None else len(self.saturated),
        }


@dataclass(frozen=True, eq=False)
class MonitorRecord(AnalysisResult):
    """One measurement of a :class:`gatewise.GateMonitor`.

    Attributes:
        step: The number of training steps done.
        sites: The activity of each site. Empty if nothing could be measured.
        seconds: The time that the measurement took.
        problem: Why nothing was measured, for example a response that is not finite.
    """

    step: int
    sites: tuple[SiteActivity, ...]
    seconds: float
    problem: str | None = None

    def scalars(self) -> dict[str, float]:
        """Return numbers by tag, ``gates/SITE/dead`` and so on, for a logger of your choice."""
        tags: dict[str, float] = {}
        for site in self.sites:
            for name, value in site.scalars().items():
                tags[f"gates/{site.name}/{name}"] = value
        return tags

    def rows(self) -> list[dict[str, Any]]:
        """Return one row of plain values for each site."""
        return [{"step": self.step, **site.counts()} for site in self.sites]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a file: counts of units, not their numbers."""
        return {
            "step": self.step,
            "seconds": self.seconds,
            "problem": self.problem,
            "sites": [site.counts() for site in self.sites],
        }

    def __str__(self) -> str:
        lines = [f"step {self.step}"]
        if self.problem is not None:
            lines.append(f"not measured: {self.problem}")
        else:
            heading = f"{'site':32} {'unit':12} {'units':>6} {'on rate':>8} {'dead':>5}"
            heading += f" {'always off':>10} {'always on':>9}"
            lines.append(f"{heading} {'dormant':>7} {'saturated':>9}")
        for site in self.sites:
            saturated = "-" if site.saturated is None else len(site.saturated)
            line = f"{site.name[:32]:32} {site.unit[:12]:12} {site.channels:6}"
            line += f" {float(site.on_rate.mean()):8.3f} {len(site.dead):5}"
            line += f" {len(site.always_off):10} {len(site.always_on):9}"
            lines.append(f"{line} {len(site.dormant):7} {saturated!s:>9}")
        return "\n".join(lines)


class ActivitySums:
    """The sums of one site over the probe, on the device of the model.

    Args:
        name: The name of the site.
        unit: The name of the activation.
        dim: The dimension of the channels.
        rule: How its gates are computed.
        response: Its input.
    """

    def __init__(self, name: str, unit: str, dim: int, rule: Rule, response: Tensor) -> None:
        self.name = name
        self.unit = unit
        self.dim = dim
        self.rule = rule
        self.seen = 0
        self.on: Tensor | None = None
        self.at_end: Tensor | None = None
        self.size: Tensor | None = None
        self.responses = ChannelRange(dim, response.dim())
        self.responses.add(response, dim)
        self.outputs = ChannelRange(dim, response.dim())

    def add_gate(self, gate: Tensor) -> None:
        """Count which gates are on, and which soft gates are at an end."""
        on = is_on(gate)
        self.seen = gate.numel() // gate.shape[self.dim]
        self.on = _count(on, self.dim)
        if self.rule.soft:
            ends = (gate < NEAR_AN_END) | (gate > 1 - NEAR_AN_END)
            self.at_end = _count(ends, self.dim)

    def add_output(self, output: Tensor) -> None:
        """Sum the absolute output of each channel, and keep its range."""
        self.outputs.add(output, self.dim)
        self.size = torch.linalg.vector_norm(
            output,
            1,
            _others(output, self.dim),
            dtype=torch.promote_types(output.dtype, torch.float),
        )

    def result(self, dormant_below: float) -> SiteActivity:
        """Return the activity of the site.

        Args:
            dormant_below: Units with a smaller share of the mean absolute output are dormant.
        """
        assert self.on is not None and self.size is not None  # noqa: S101  one run has both
        on = self.on.cpu()
        size = self.size.cpu()
        dead = dead_channels(self.rule.slope, self.responses, self.outputs).cpu()
        saturated = None
        if self.at_end is not None:
            saturated = _places(self.at_end.cpu() >= MOSTLY * self.seen)
        return SiteActivity(
            name=self.name,
            unit=self.unit,
            channels=len(on),
            on_rate=on / self.seen,
            dead=_places(dead),
            always_off=_places((on == 0) & ~dead),
            always_on=_places((on == self.seen) & ~dead),
            dormant=_places(size <= dormant_below * size.mean()),
            saturated=saturated,
        )


def _others(values: Tensor, dim: int) -> list[int]:
    return [axis for axis in range(values.dim()) if axis != dim % values.dim()]


def _count(truth: Tensor, dim: int) -> Tensor:
    """Return how often each channel is true, as float64."""
    return truth.sum(_others(truth, dim), dtype=torch.int64).double()


def _places(mask: Tensor) -> tuple[int, ...]:
    return tuple(mask.nonzero().flatten().tolist())
