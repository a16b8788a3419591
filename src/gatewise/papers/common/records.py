"""What an experiment finds.

Curves, numbers beside the paper's, and what the paper says that can be looked at.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

Numbers = Sequence[
    float | None
]  # None where a number is not finite: JSON has no other way to say so


@dataclass(frozen=True)
class Line:
    """One curve: the mean over seeds, and their standard deviation where there are several."""

    label: str
    x: Numbers
    mean: Numbers
    spread: Numbers | None = None
    theory: bool = False  # a closed form, not a measurement: drawn dashed


@dataclass(frozen=True)
class Panel:
    """One plot of a figure."""

    title: str
    xlabel: str
    ylabel: str
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Picture:
    """An image in place of a plot: rows of pixels, each red, green and blue from 0 to 1."""

    title: str
    pixels: Sequence[Sequence[Sequence[float]]]


@dataclass(frozen=True)
class Row:
    """One number of ours.

    The paper's, where it prints one, and the closed form, where there is one, stand apart.
    """

    what: str
    ours: float | None  # mean over seeds; None where every seed diverged
    spread: float | None  # standard deviation over seeds
    seeds: int  # how many seeds the mean is over
    published: float | None = None
    closed_form: float | None = None
    within: float | None = None  # half the width of the interval in which the closed form must lie
    left_out: int = 0  # seeds without a finite value: they diverged, or their kernel has no inverse

    @property
    def agrees(self) -> bool | None:
        """Whether the closed form lies in the interval.

        None where there is none to hold it against.
        """
        if self.closed_form is None or self.within is None or self.ours is None:
            return None
        return abs(self.ours - self.closed_form) <= self.within


@dataclass(frozen=True)
class Claim:
    """What the paper says in words, whether it is so here, and the numbers that decide."""

    published: str
    holds: bool
    evidence: str


@dataclass(frozen=True)
class Findings:
    """What one experiment measured."""

    panels: Sequence[Panel | Picture]
    rows: Sequence[Row]
    claims: Sequence[Claim] = ()
    notes: Sequence[str] = ()  # choices the paper leaves open, and corrections


@dataclass(frozen=True)
class Result:
    """Findings, and all that is needed to have them again."""

    experiment: str
    title: str
    scale: str
    reduced: str  # what is smaller than in the paper, in words; "" where nothing is
    seeds: Sequence[int]
    settings: dict[str, Any]
    findings: Findings
    versions: dict[str, str]
    seconds: float  # of processor time, with what an earlier, unfinished run had already done
    date: str
    files: Sequence[str] = field(default=())

    @property
    def scale_in_words(self) -> str:
        """For the row of a table."""
        return f"{self.scale}: {self.reduced}" if self.reduced else f"{self.scale}: as in the paper"

    @property
    def failed(self) -> list[Row]:
        """The rows whose closed form is outside the interval."""
        return [row for row in self.findings.rows if row.agrees is False]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a file, without the curves.

        Every row says its scale and whether it agrees.
        """
        whole = plain(asdict(self))
        del whole["findings"]["panels"]
        for row, record in zip(self.findings.rows, whole["findings"]["rows"], strict=True):
            record |= {"agrees": row.agrees, "scale": self.scale_in_words}
        return whole


def plain(value: Any) -> Any:
    """``value`` in the types of JSON; a number that is not finite is None."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
