"""What the first page of a diagnosis counts: each number with the call that acts on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gatewise.analysis.record import AnalysisResult
from gatewise.words import percentage

EXACT = 1e-6  # of a correlation from -1, for filters that are each other's negative
Facts = Mapping[str, Any]


@dataclass(frozen=True)
class CountedFinding(AnalysisResult):
    """One number of the first page.

    Attributes:
        name: what was counted.
        number: how many there are, or a share in words.
        total: of how many; empty for a share.
        call: what acts on it, or lists it, in Python.
    """

    name: str
    number: str
    total: str
    call: str

    @property
    def line(self) -> str:
        """The finding in one line."""
        of = f" of {self.total}" if self.total else ""
        return f"{self.name}: {self.number}{of}  ({self.call})"


def counted_findings(
    facts: Mapping[str, Facts], revive: str, gates: str
) -> tuple[CountedFinding, ...]:
    """Return the counts of the questions that were answered.

    Args:
        facts: of the answers, by question.
        revive: the call or command that gives dead units new weights.
        gates: the call or command that lists what each channel does.
    """
    found = []
    if facts.get("gates"):
        found += _of_gates(facts["gates"]["sites"], revive, gates)
    if facts.get("pairing"):
        rows = facts["pairing"]["layers"]
        pairs = sum(row.get("exact_pairs", 0) for row in rows)
        filters = sum(row.get("filters", 0) for row in rows)
        found.append(
            CountedFinding(
                "pairs of filters that are each other's negative",
                f"{pairs:,}",
                f"{filters // 2:,}" if filters else "",
                "gw.surgery.merge_pairs(model, x, tolerance=1e-5)",
            )
        )
    if facts.get("cost"):
        share = percentage(min(1.0, facts["cost"]["site_share"]))
        found.append(CountedFinding("time in activation functions", share, "", "gw.fuse(model)"))
    return tuple(found)


@dataclass(frozen=True)
class GateCounts:
    """How many channels of some activations behave in which way.

    Attributes:
        channels: All channels.
        dead: Those that are never on.
        always_on: Those that are never off.
        first_only: Those that change only at the first token.
        copies: Those with the gates of another channel of the same activation.
        soft: The channels of soft activations.
        saturated: Soft ones that are at an end.
    """

    channels: int
    dead: int
    always_on: int
    first_only: int
    copies: int
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
        always_on=sum(len(site["always_on"]) for site in sites),
        first_only=sum(len(site["first_only"]) for site in sites),
        copies=sum(map(copies_at, sites)),
        soft=sum(site["channels"] for site in soft),
        saturated=sum(site["saturated"] for site in soft),
    )


def copies_at(site: Facts) -> int:
    """Return how many channels of an activation are copies of another: all but one of a group."""
    return sum(len(group) - 1 for group in site["duplicates"])


def _of_gates(sites: Sequence[Facts], revive: str, call: str) -> list[CountedFinding]:
    """Return the counts of channels."""
    counts = gate_counts(sites)
    total = f"{counts.channels:,} channels"
    found = [
        CountedFinding("dead", f"{counts.dead:,}", total, revive),
        CountedFinding("always on", f"{counts.always_on:,}", total, call),
        CountedFinding("copies of another", f"{counts.copies:,}", total, call),
    ]
    if counts.first_only:
        number = f"{counts.first_only:,}"
        found.append(CountedFinding("change only at the first token", number, total, call))
    if counts.soft:
        gates = f"{counts.soft:,} soft gates"
        found.append(CountedFinding("saturated", f"{counts.saturated:,}", gates, call))
    return found


def exact_pairs(correlation: Any) -> int:
    """Return how many pairs of filters are each other's negative.

    Args:
        correlation: of each filter with its most opposite one.
    """
    return int((correlation <= -1 + EXACT).sum()) // 2
