"""Summary of the differences of two lists of results, seed by seed."""

from collections.abc import Sequence
from dataclasses import dataclass

from gatewise.stats.checks import takes_numbers
from gatewise.stats.summary import mean, standard_deviation


@dataclass(frozen=True)
class PairedDifference:
    """Summary of the differences of two lists of results, seed by seed."""

    n: int  # pairs in which both values are there
    ours: float  # mean of the first list over these pairs
    theirs: float  # mean of the second
    difference: float  # mean of first minus second
    spread: float  # standard deviation of the differences
    below: int  # pairs in which the first value is lower

    @property
    def within_spread(self) -> bool:
        """Whether the mean difference is smaller than its standard deviation."""
        return abs(self.difference) < self.spread


@takes_numbers
def paired_difference(
    ours: Sequence[float | None],
    theirs: Sequence[float | None],
) -> PairedDifference:
    """Summarise ``ours - theirs`` seed by seed; pairs with a missing value are left out.

    Args:
        ours: one value per seed; None where the run has no result.
        theirs: the values to subtract, for the same seeds in the same order.

    Returns:
        The summary. Its means are NaN if no pair is complete.
    """
    first: list[float] = []
    second: list[float] = []
    for our, their in zip(ours, theirs, strict=True):
        if our is not None and their is not None:
            first.append(our)
            second.append(their)
    gaps = [our - their for our, their in zip(first, second, strict=True)]
    below = sum(gap < 0 for gap in gaps)
    return PairedDifference(
        n=len(gaps),
        ours=mean(first),
        theirs=mean(second),
        difference=mean(gaps),
        spread=standard_deviation(gaps),
        below=below,
    )
