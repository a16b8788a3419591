"""The runs of a batch of studies as arrays, and what a diverged run counts as.

Note [The factorial rule]. Every unit is trained at the same learning rates with the same seeds. A
unit is better if it is better both at the fitted peak of its rate curve and at the best rate that
was tried. One interval spans both estimates, and decides alone. ``curve_fit.py`` fits the peak,
``verdicts.py`` has the interval, ``schedule.py`` says which rates are run.

Note [What a diverged run is worth]. A diverged or collapsed run counts as chance level, or as the
worst value of the study where no chance level is known. The verdict must be the same when these
runs are replaced by the mean of the other runs of that unit at that rate. Which rates are run is
decided without the diverged runs.
"""

from dataclasses import dataclass

import numpy as np

from gatewise.errors import ArgumentError


@dataclass(frozen=True)
class FactorialRuns:
    """The runs of a batch of studies. Larger values are better.

    Arrays have the shape (studies, units, rates, seeds). Unit 0 is the baseline. The rates are
    those of ``grid_steps(count)``.

    Attributes:
        values: Heights of the curves. NaN if a run is missing or has diverged.
        diverged: Runs that diverged or collapsed.
        lost: Runs that are missing and will never be there. The unit is judged without that rate.
        count: The number of planned rates.
        chance: What a diverged run counts as. None for the worst value of the study.
        floor: The smallest step of the metric. No standard deviation is taken to be smaller.
        validation: Values that place the peak and the best rate. None to place them by ``values``.
    """

    values: np.ndarray
    diverged: np.ndarray
    lost: np.ndarray
    count: int
    chance: float | None = None
    floor: float = 0.0
    validation: np.ndarray | None = None

    def __post_init__(self) -> None:
        from gatewise.stats.factorial.grid import grid_steps

        shape = self.values.shape
        rates = len(grid_steps(self.count))
        if len(shape) != 4 or shape[2] != rates:
            raise ArgumentError(
                "FactorialRuns: values do not have the shape (studies, units, rates, seeds)",
                got=shape,
                allowed=f"{rates} rates for {self.count} planned rates",
            )
        for name in ("diverged", "lost", "validation"):
            other = getattr(self, name)
            if other is not None and other.shape != shape:
                raise ArgumentError(
                    f"FactorialRuns: {name} and values differ in shape", got=other.shape
                )

    @classmethod
    def of(
        cls,
        values: np.ndarray,
        count: int,
        *,
        diverged: np.ndarray | None = None,
        lost: np.ndarray | None = None,
        chance: float | None = None,
        floor: float = 0.0,
        validation: np.ndarray | None = None,
    ) -> "FactorialRuns":
        """Return the runs with empty masks where none are given.

        Args:
            values: Heights of the curves, (studies, units, rates, seeds).
            count: The number of planned rates.
            diverged: Runs that diverged or collapsed; none by default.
            lost: Runs that will never be there; none by default.
            chance: What a diverged run counts as.
            floor: The smallest step of the metric.
            validation: Values that place the peak and the best rate.
        """
        none = np.zeros(values.shape, bool)
        diverged = none if diverged is None else diverged
        lost = none if lost is None else lost
        away = diverged | lost
        if validation is not None:
            validation = np.where(away, np.nan, validation)
        return cls(
            values=np.where(away, np.nan, values),
            diverged=diverged & ~lost,
            lost=lost,
            count=count,
            chance=chance,
            floor=floor,
            validation=validation,
        )

    @property
    def placing(self) -> np.ndarray:
        """The values that place the peak and the best rate."""
        return self.values if self.validation is None else self.validation

    @property
    def present(self) -> np.ndarray:
        """Runs that have ended, with a value or diverged."""
        return self.diverged | (np.isfinite(self.values) & np.isfinite(self.placing))

    def worth(self, values: np.ndarray, used: np.ndarray) -> np.ndarray:
        """Return what a diverged run counts as, one value a study.

        Args:
            values: ``values`` or ``validation``.
            used: The runs that the worst value is taken of.
        """
        if self.chance is not None:
            return np.full(len(values), self.chance)
        usable = used & np.isfinite(values)
        worst = np.where(usable, values, np.inf).min((1, 2, 3))
        return np.where(np.isfinite(worst), worst, 0.0)


def at_worth(values: np.ndarray, diverged: np.ndarray, worth: np.ndarray) -> np.ndarray:
    """Return the values with diverged runs at what they are worth."""
    return np.where(diverged, worth[:, None, None, None], values)


def without_diverged(values: np.ndarray, diverged: np.ndarray, worth: np.ndarray) -> np.ndarray:
    """Return the values with diverged runs at the mean of the others at that unit and rate.

    Where every run diverged they stay at what they are worth.
    """
    left = ~diverged & np.isfinite(values)
    number = left.sum(-1)
    total = np.where(left, values, 0.0).sum(-1)
    others = np.where(number > 0, total / np.maximum(number, 1), worth[:, None, None])
    return np.where(diverged, others[..., None], values)
