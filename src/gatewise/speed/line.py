"""One line of the benchmark."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from gatewise.speed.measuring import Timing
from gatewise.speed.reasons import reason_of

Measured = tuple[Timing, str]


@dataclass(frozen=True)
class Line:
    """One line of the benchmark.

    Attributes:
        name: of the line.
        what: what is compared with what.
        target: the bound.
        relation: whether the measured value must be at most or at least the target.
        measure: returns ratio, spread and the form of the unit that ran, within some seconds.
    """

    name: str
    what: str
    target: float
    relation: Literal["at most", "at least"]
    measure: Callable[[float], Measured]

    @property
    def reason(self) -> str:
        """Why it is missed, if that is known."""
        return reason_of(self.name)

    def is_met(self, value: float) -> bool:
        """Return whether a measured value meets the target."""
        if self.relation == "at most":
            return value <= self.target
        return value >= self.target
