"""Judge units at each learning rate alone."""

import numpy as np

from gatewise.stats.factorial.runs import FactorialRuns, at_worth, without_diverged
from gatewise.stats.factorial.verdicts import PairedT, paired_t


def judge_single_rates(
    runs: FactorialRuns,
    rates: np.ndarray,
    *,
    level: float = 0.05,
) -> PairedT:
    """Compare the units with the baseline at the same rates, one by one.

    All units and rates share the level. An interval spans both values of a diverged run.

    Args:
        runs: Of a batch of studies.
        rates: Indices of rates at which every unit has every seed.
        level: The accepted chance of any wrong verdict.

    Returns:
        Intervals and p-values, corrected, of shape (studies, units without the baseline, rates).
    """
    values = runs.values[:, :, rates]
    diverged = runs.diverged[:, :, rates]
    comparisons = max(1, (values.shape[1] - 1) * values.shape[2])
    worth = runs.worth(values, np.ones(values.shape, bool))
    ways = []
    for fill in (at_worth, without_diverged):
        filled = fill(values, diverged, worth)
        ways.append(paired_t(filled[:, 1:] - filled[:, :1], level / comparisons, runs.floor))
    counted, without = ways
    same = np.sign(counted.mean) == np.sign(without.mean)
    p = np.minimum(1.0, comparisons * np.maximum(counted.p, without.p))
    return PairedT(
        mean=counted.mean,
        low=np.minimum(counted.low, without.low),
        high=np.maximum(counted.high, without.high),
        p=np.where(same, p, 1.0),
    )
