"""What the first page of a diagnosis counts: each number with the call that acts on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gatewise.analysis.record import AnalysisResult
from gatewise.words import percentage

EXACT = 1e-6  # of a correlation from -1, for filters that are each other's negative
Facts = Mapping[str, Any]


class Calls(Protocol):
    """Names the calls that act on counts, or the commands; empty where there is none."""

    def revive(self) -> str:
        """Return what gives dead units new weights."""
        ...

    def gates(self) -> str:
        """Return what lists what each channel does."""
        ...

    def merge_pairs(self) -> str:
        """Return what merges pairs of filters that are each other's negative."""
        ...

    def fuse(self) -> str:
        """Return what makes activation functions faster."""
        ...


@dataclass(frozen=True)
class CountedFinding(AnalysisResult):
    """One number of the first page.

    Attributes:
        name: what was counted.
        number: how many there are, or a share in words.
        total: of how many; empty for a share.
        call: what acts on it, or lists it; empty if there is nothing to act on.
    """

    name: str
    number: str
    total: str
    call: str

    @property
    def line(self) -> str:
        """The finding in one line."""
        of = f" of {self.total}" if self.total else ""
        call = f"  ({self.call})" if self.call else ""
        return f"{self.name}: {self.number}{of}{call}"


def counted_findings(facts: Mapping[str, Facts], calls: Calls) -> tuple[CountedFinding, ...]:
    """Return the counts of the questions that were answered.

    Args:
        facts: of the answers, by question.
        calls: how calls are named.
    """
    found = []
    if facts.get("gates"):
        found += _of_gates(facts["gates"]["sites"], calls.revive(), calls.gates())
    if facts.get("pairing"):
        rows = facts["pairing"]["layers"]
        pairs = sum(row.get("exact_pairs", 0) for row in rows)
        filters = sum(row.get("filters", 0) for row in rows)
        found.append(
            _counted(
                "pairs of filters that are each other's negative",
                pairs,
                f"{filters // 2:,}" if filters else "",
                calls.merge_pairs(),
            )
        )
    if facts.get("cost"):
        share = percentage(min(1.0, facts["cost"]["site_share"]))
        call = calls.fuse() if facts["cost"]["site_share"] else ""
        found.append(CountedFinding("time in activation functions", share, "", call))
    return tuple(found)


@dataclass(frozen=True)
class GateCounts:
    """How many channels of some activations behave in which way.

    Attributes:
        channels: All channels.
        dead: Those whose output is constant and whose slope is zero there.
        always_off: Others that are never on.
        always_on: Others that are never off.
        constant: Those whose output is constant.
        first_only: Those that change only at the first token.
        alike: Those that are on for the same inputs as another channel of the same activation.
        soft: The channels of soft activations.
        saturated: Soft ones that are at an end.
    """

    channels: int
    dead: int
    always_off: int
    always_on: int
    constant: int
    first_only: int
    alike: int
    soft: int
    saturated: int


def gate_counts(sites: Sequence[Facts]) -> GateCounts:
    """Return the counts over some activations.

    Args:
        sites: Their facts in the finding of the question ``gates``.
    """
    soft = [site for site in sites if "saturated" in site]
    return GateCounts(
        channels=sum(site["channels"] for site in sites),
        dead=sum(len(site["dead"]) for site in sites),
        always_off=sum(len(site["always_off"]) for site in sites),
        always_on=sum(len(site["always_on"]) for site in sites),
        constant=sum(site["constant"] for site in sites),
        first_only=sum(len(site["first_only"]) for site in sites),
        alike=sum(map(alike_at, sites)),
        soft=sum(site["channels"] for site in soft),
        saturated=sum(site["saturated"] for site in soft),
    )


def alike_at(site: Facts) -> int:
    """Return how many channels of an activation switch with another: all but one of a group."""
    return sum(len(group) - 1 for group in site["duplicates"])


def _of_gates(sites: Sequence[Facts], revive: str, call: str) -> list[CountedFinding]:
    """Return the counts of channels."""
    counts = gate_counts(sites)
    total = f"{counts.channels:,} channels"
    found = [_counted("dead", counts.dead, total, revive)]
    if counts.always_off:
        found.append(_counted("always off, not dead", counts.always_off, total, call))
    found.append(_counted("always on", counts.always_on, total, call))
    found.append(_counted("on for exactly the same inputs as another", counts.alike, total, call))
    if counts.first_only:
        found.append(_counted("change only at the first token", counts.first_only, total, call))
    if counts.soft:
        found.append(_counted("saturated", counts.saturated, f"{counts.soft:,} soft gates", call))
    return found


def _counted(name: str, number: int, total: str, call: str) -> CountedFinding:
    """Return a count, with a call only if there is something to call it for."""
    return CountedFinding(name, f"{number:,}", total, call if number else "")


def exact_pairs(correlation: Any) -> int:
    """Return how many pairs of filters are each other's negative.

    Args:
        correlation: of each filter with its most opposite one.
    """
    return int((correlation <= -1 + EXACT).sum()) // 2
