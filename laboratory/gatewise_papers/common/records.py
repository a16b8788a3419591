"""What an experiment finds: curves, numbers beside the paper's, and claims of the paper."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gatewise.stats import finite, half_width, mean, standard_deviation
from gatewise.studies import plain
from gatewise_papers.common.judgements import ClaimEvidence, Judgement

# None for a number that is not finite: JSON has no other way to write it.
Numbers = Sequence[float | None]
ROUNDING = 1e-9  # relative; all seeds may agree with a closed form to the last digit


@dataclass(frozen=True)
class Line:
    """One curve: the mean over seeds, and their standard deviation if there are several."""

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
    """One measured number, separate from the paper's number and from the closed form."""

    what: str
    ours: float | None  # mean over seeds; None if every seed diverged
    spread: float | None  # standard deviation over seeds
    seeds: int  # how many seeds the mean is over
    published: float | None = None
    closed_form: float | None = None
    within: float | None = None  # half the width of the interval in which the closed form must lie
    left_out: int = 0  # seeds without a finite value: they diverged, or their kernel is singular
    per_seed: Numbers = ()  # the value of every seed; None where it is not finite

    @property
    def agrees(self) -> bool | None:
        """Whether the closed form lies in the interval; None if there is nothing to compare."""
        if self.closed_form is None or self.within is None or self.ours is None:
            return None
        return abs(self.ours - self.closed_form) <= self.within


@dataclass(frozen=True)
class Claim:
    """What the paper says in words, the verdict on it here, and the numbers that decide.

    Attributes:
        published: what the paper says.
        verdict: supported, contradicted, undecided or not tested.
        evidence: the numbers in words.
        compared: the differences that decided, positive as claimed, with their intervals.
        detectable: the smallest difference that this run could have shown with a chance of 80 %.
        reason: why the claim was not tested.
        exact: whether it is about counts, closed forms or a theorem, which need no statistics.
    """

    published: str
    verdict: Judgement
    evidence: str
    compared: Sequence[ClaimEvidence] = ()
    detectable: float | None = None
    reason: str = ""
    exact: bool = False


@dataclass(frozen=True)
class LevelReached:
    """How well networks are trained; see Note [Levels] of :mod:`gatewise_papers.common.levels`.

    Attributes:
        what: the name of the row.
        ours: the mean over seeds; None if every seed diverged.
        published: the paper's number.
        limit: from where on claims are judged, in words; empty if there is no limit.
        is_reached: whether ours is within the limit.
        words: ours and the paper's number.
        claims: beginnings of the claims that depend on it; none: all that are not exact.
    """

    what: str
    ours: float | None
    published: float | None
    limit: str
    is_reached: bool
    words: str
    claims: tuple[str, ...] = ()


@dataclass(frozen=True)
class Findings:
    """What one experiment measured."""

    panels: Sequence[Panel | Picture]
    rows: Sequence[Row]
    claims: Sequence[Claim] = ()
    notes: Sequence[str] = ()  # choices the paper leaves open, and corrections
    # By the name of a cell: what other experiments read of its trained network.
    networks: Mapping[str, Any] = field(default_factory=dict)
    levels: Sequence[LevelReached] = ()  # how well the networks are trained


@dataclass(frozen=True)
class Result:
    """Findings, and everything needed to reproduce them."""

    experiment: str
    title: str
    scale: str
    reduced: str  # what is smaller than in the paper, in words; "" if nothing is
    seeds: Sequence[int]
    settings: dict[str, Any]
    findings: Findings
    versions: dict[str, str]
    seconds: float  # of processor time, including that of an earlier, interrupted run
    date: str
    files: Sequence[str] = field(default=())
    data_sha256: dict[str, str] = field(default_factory=dict)  # by name and options
    machine: dict[str, str] = field(default_factory=dict)

    @property
    def scale_in_words(self) -> str:
        """The scale as it stands in the row of a table."""
        return f"{self.scale}: {self.reduced}" if self.reduced else f"{self.scale}: as in the paper"

    @property
    def failed(self) -> list[Row]:
        """The rows whose closed form is outside the interval."""
        return [row for row in self.findings.rows if row.agrees is False]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for a file, without the curves.

        Every row says its scale and whether it agrees.
        """
        content = plain(asdict(self))
        del content["findings"]["panels"]
        if not self.findings.networks:
            del content["findings"]["networks"]
        for row, record in zip(self.findings.rows, content["findings"]["rows"], strict=True):
            record |= {"agrees": row.agrees, "scale": self.scale_in_words}
        return content


def column(rows: Iterable[Any], key: Any) -> list[Any]:
    """Return the entry ``key`` of every row, for example one value of every seed."""
    return [row[key] for row in rows]


def row(
    what: str,
    values: Numbers,
    *,
    published: float | None = None,
    closed_form: float | None = None,
    compared: int = 0,
) -> Row:
    """Return the row of a number measured once per seed.

    Args:
        what: names the number.
        values: one per seed; those that are not finite are left out and counted.
        published: the paper's number.
        closed_form: what theory says.
        compared: how many rows must agree with their closed forms together; 0 to compare none.
    """
    good = finite(values)
    several = len(good) > 1
    within = half_width(good, compared=compared) if compared and several else None
    if within is not None and closed_form is not None:
        within += ROUNDING * abs(closed_form)
    return Row(
        what=what,
        ours=mean(good) if good else None,
        spread=standard_deviation(good) if several else None,
        seeds=len(good),
        published=published,
        closed_form=closed_form,
        within=within,
        left_out=len(values) - len(good),
        per_seed=plain(list(values)),
    )


def line(label: str, x: Numbers, seeds: Sequence[Numbers]) -> Line:
    """Return a curve: mean and spread of the finite values at each point.

    Args:
        label: of the curve.
        x: the points.
        seeds: for each seed one value per point.
    """
    means: list[float | None] = []
    spreads: list[float | None] = []
    for column in zip(*seeds, strict=True):
        values = finite(column)
        means.append(mean(values) if values else None)
        spreads.append(standard_deviation(values) if values else None)
    return Line(label, list(x), means, spreads if len(seeds) > 1 else None)
