"""One line of the benchmark."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from gatewise.speed.measuring import Timing

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
        reason: the known or likely cause if the line is missed; it says so if nothing was profiled.
    """

    name: str
    what: str
    target: float
    relation: Literal["at most", "at least"]
    measure: Callable[[float], Measured]
    reason: str = ""

    def is_met(self, value: float) -> bool:
        """Return whether a measured value meets the target."""
        if self.relation == "at most":
            return value <= self.target
        return value >= self.target
