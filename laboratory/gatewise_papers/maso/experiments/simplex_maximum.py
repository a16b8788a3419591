"""The best weights of several numbers under a penalty, found by search and not by a formula."""

import math
from collections.abc import Sequence

# A section search narrows its interval by this factor in each step: 0.618^80 is 2e-17.
GOLDEN = (math.sqrt(5) - 1) / 2
STEPS = 80
# A concave function is flat at its maximum: the search sees no difference of values below the
# rounding error, so that weights are known to its root alone. Half the digits of a float remain.
NEAR = 1e-7


def best_weights(numbers: Sequence[float], beta: float, *, sweeps: int = 60) -> list[float]:
    """Return the weights t that maximise beta sum(t u) + (1 - beta) entropy(t) on the simplex.

    Weight is moved between two places at a time, each time as much as a golden section search
    finds best, until a whole sweep moves nothing.

    Args:
        numbers: the numbers u.
        beta: from 0 (entropy alone) to 1 (no entropy).
        sweeps: the largest number of sweeps over all pairs.

    Returns:
        One weight per number; they are not negative and sum to 1.
    """
    count = len(numbers)
    weights = [1.0 / count] * count
    for _ in range(sweeps):
        moved = 0.0
        for i in range(count):
            for j in range(i + 1, count):
                moved = max(moved, _share_out(numbers, weights, i, j, beta))
        if moved <= NEAR / count:
            break
    return weights


def best_mean(numbers: Sequence[float], beta: float) -> float:
    """Return the mean of numbers with the weights that :func:`best_weights` finds.

    Args:
        numbers: the numbers.
        beta: from 0 (entropy alone) to 1 (no entropy).
    """
    weights = best_weights(numbers, beta)
    return sum(weight * number for weight, number in zip(weights, numbers, strict=True))


def _share_out(
    numbers: Sequence[float], weights: list[float], i: int, j: int, beta: float
) -> float:
    """Divide the weight of two places in the best way; return how much was moved."""
    total = weights[i] + weights[j]

    def gain(part: float) -> float:
        """The two places' share of the objective with ``part`` of the weight at the first."""
        value = beta * (part * numbers[i] + (total - part) * numbers[j])
        return value + (1 - beta) * (_entropy(part) + _entropy(total - part))

    low, high = 0.0, total
    for _ in range(STEPS):
        left = high - GOLDEN * (high - low)
        right = low + GOLDEN * (high - low)
        if gain(left) < gain(right):
            low = left
        else:
            high = right
    # The ends are candidates too: without entropy one of them is the maximum.
    best = max((0.0, (low + high) / 2, total), key=gain)
    moved = abs(best - weights[i])
    weights[i], weights[j] = best, total - best
    return moved


def _entropy(weight: float) -> float:
    """One term of the entropy."""
    return -weight * math.log(weight) if weight > 0 else 0.0
