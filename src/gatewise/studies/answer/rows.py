"""The rows of a comparison: one unit against the baseline, with its curve over the rate."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gatewise.errors import unknown_name

Verdict = Literal[
    "baseline",
    "better",
    "worse",
    "equivalent",
    "undecided",
    "not decided",
    "nothing was learned",
    "preliminary",
]
DECIDED = ("better", "worse")


@dataclass(frozen=True)
class CurvePoint:
    """A unit at one learning rate, in recorded values.

    Attributes:
        step: Half steps from the recipe's rate.
        rate: The learning rate; None if it is not known.
        mean: Over seeds, of the runs that did not diverge. NaN if all did.
        spread: Their standard deviation; NaN for one run.
        runs: How many there are.
        diverged: Runs that diverged or collapsed.
        judged: Whether the verdict uses this rate. Others were dropped after the first seeds.
    """

    step: int
    rate: float | None
    mean: float
    spread: float
    runs: int
    diverged: int
    judged: bool


@dataclass(frozen=True)
class EqualRate:
    """A unit against the baseline at the same learning rate, in recorded values."""

    rate: float | None
    difference: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class UnitRow:
    """One unit of one model. Differences are unit minus baseline, in recorded values.

    Attributes:
        unit: Its label.
        verdict: In one word, or "nothing was learned".
        reason: Why it is not decided, or what limits the verdict; empty if nothing does.
        difference: At the fitted peaks.
        low: Lower end of the interval that decides; NaN if there is none.
        high: Its upper end.
        p: Corrected for the number of units.
        height: Of the unit's fitted peak.
        best: Mean at the best rate tried.
        spread: Standard deviation over seeds there.
        best_rate: The best rate tried.
        peak_rate: Where the fitted peak is.
        plateau: The lowest and the highest rate at which the curve is within one standard
            deviation of a run of the best.
        curve: The unit at every rate.
        equal_rates: The unit against the baseline at the same rates.
        runs: Runs at the best rate.
        diverged: Runs that diverged or collapsed, at any rate.
        failed: Runs that failed, at any rate.
        parameters_ratio: Parameters divided by the baseline's; NaN if not known.
        test: Of a table: ``"paired t"`` or the test for runs without pairs.
    """

    unit: str
    verdict: Verdict
    reason: str = ""
    difference: float = math.nan
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan
    height: float = math.nan
    best: float = math.nan
    spread: float = math.nan
    best_rate: float | None = None
    peak_rate: float | None = None
    plateau: tuple[float, float] | None = None
    curve: Sequence[CurvePoint] = ()
    equal_rates: Sequence[EqualRate] = ()
    runs: int = 0
    diverged: int = 0
    failed: int = 0
    parameters_ratio: float = math.nan
    test: str = "paired t"

    @property
    def is_decided(self) -> bool:
        """Whether the unit is better or worse."""
        return self.verdict in DECIDED


@dataclass(frozen=True)
class ModelAnswer:
    """The rows of one model.

    Attributes:
        model: Its name.
        rows: The baseline first, then the units from best to worst.
        done: Runs that have ended.
        total: Runs of the study as far as the rule has asked for them.
        confidence: Of one interval.
        missing: Runs that are still asked for: unit, step and seed.
        dropped: Rates that a unit is judged without, in words.
    """

    model: str
    rows: Sequence[UnitRow]
    done: int
    total: int
    confidence: float = math.nan
    missing: Sequence[tuple[str, int, int]] = ()
    dropped: Sequence[str] = ()

    @property
    def baseline(self) -> UnitRow:
        """The row of the baseline."""
        return self.rows[0]

    @property
    def units(self) -> Sequence[UnitRow]:
        """The rows without the baseline."""
        return self.rows[1:]

    @property
    def is_preliminary(self) -> bool:
        """Whether runs are still asked for."""
        return bool(self.missing)

    def __getitem__(self, unit: str) -> UnitRow:
        for row in self.rows:
            if row.unit == unit:
                return row
        raise unknown_name("unit of the comparison", unit, [row.unit for row in self.rows])
