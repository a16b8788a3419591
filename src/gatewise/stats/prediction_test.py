"""Student's test of one value against draws from the same distribution."""

import math

from torch import Tensor

from gatewise.stats.takes_numbers import takes_numbers


@takes_numbers
def p_at_most(value: float, draws: Tensor) -> float:
    """Return the probability that one more draw is at most ``value``; 1 if it is NaN."""
    from scipy import stats

    if math.isnan(value):
        return 1.0
    # The variance of a new draw minus the sample mean is (1 + 1/n) times the draws' variance.
    spread = float(draws.std()) * math.sqrt(1 + 1 / len(draws))
    distance = value - float(draws.mean())
    return float(stats.t.cdf(distance / max(spread, 1e-300), len(draws) - 1))
