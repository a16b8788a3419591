"""Correction of p-values for the number of tests, where there are no intervals beside them.

Comparisons of runs use Bonferroni's correction instead, which has matching intervals.
"""

from collections.abc import Sequence

from gatewise.stats.takes_numbers import takes_numbers


@takes_numbers
def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values corrected by Holm's step-down rule, in the order of the input."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for place, index in enumerate(order):
        scaled = min(1.0, (len(p_values) - place) * p_values[index])
        # A corrected p-value is never below that of a smaller raw one.
        largest = max(largest, scaled)
        corrected[index] = largest
    return corrected
