"""Student's test of one value against draws of the same law."""

import math

from torch import Tensor


def p_at_most(value: float, draws: Tensor) -> float:
    """Probability that one more draw is at most ``value``."""
    from scipy import stats

    if math.isnan(value):
        return 1.0
    spread = float(draws.std()) * math.sqrt(1 + 1 / len(draws))
    return float(stats.t.cdf((value - float(draws.mean())) / max(spread, 1e-300), len(draws) - 1))
