"""Holm's correction of p-values for the number of tests."""

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Each p-value corrected by Holm's step-down rule, in the order given."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected, worst = [0.0] * len(p_values), 0.0
    for place, index in enumerate(order):
        worst = max(worst, min(1.0, (len(p_values) - place) * p_values[index]))
        corrected[index] = worst
    return corrected
