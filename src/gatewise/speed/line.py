"""One line of the benchmark."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from gatewise.speed.measuring import Timing
from gatewise.speed.placing import is_processor
from gatewise.speed.profiles import operators_in_words
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
        profile: says where the time goes, given the target. Without it the operators of both sides
            are named.
    """

    name: str
    what: str
    target: float
    relation: Literal["at most", "at least"]
    measure: Callable[[float], Measured]
    profile: Callable[[float], str] | None = None

    def explain(self, timing: Timing) -> str:
        """Profile a line that is missed, and return why it is.

        Args:
            timing: what was measured.
        """
        parts = [reason_of(self.name)]
        if is_processor():
            if self.profile is not None:
                parts.append(self.profile(self.target))
            elif timing.steps:
                # A throughput is the time of the other side over ours.
                steps = timing.steps if self.relation == "at most" else timing.steps[::-1]
                parts.append(operators_in_words(*steps))
        return "; ".join(part for part in parts if part)

    def is_met(self, value: float) -> bool:
        """Return whether a measured value meets the target."""
        if self.relation == "at most":
            return value <= self.target
        return value >= self.target
