"""Verdicts of factorial studies. See Note [Two estimates, one interval].

Note [Two estimates, one interval]. Units are compared at the fitted peaks and at the best rates
tried, each by a paired t interval at level 1 - 0.05 / m. The interval that is shown runs from the
lower of the two lower ends to the higher of the two upper ends, so it excludes zero exactly when
both agree. Where runs diverged it spans both estimates with these runs counted both ways. See Note
[What a diverged run is worth].
"""

from dataclasses import dataclass

import numpy as np

from gatewise.stats.factorial.curve_fit import CurveFit, fit_curves, runs_at
from gatewise.stats.factorial.grid import grid_steps
from gatewise.stats.factorial.runs import FactorialRuns, at_worth, without_diverged
from gatewise.stats.factorial.schedule import Progress


@dataclass(frozen=True)
class FactorialVerdicts:
    """Verdicts of a batch of studies. Arrays are (studies, units without the baseline) unless said.

    Attributes:
        side: 1 for better, -1 for worse, 0 for no difference shown.
        difference: At the fitted peaks.
        low: Lower end of the interval that decides.
        high: Its upper end.
        p: The larger of the p-values of the estimates, times the number of comparisons.
        peak_side: What the fitted peaks alone say.
        best_side: What the best rates tried alone say.
        on_diverged: Whether the verdict depends on what a diverged run is worth.
        at_edge: Whether the unit's or the baseline's best rate is clearly at an end of the grid.
        too_coarse: Whether the unit or the baseline has too few rates near its best.
        fit: Peaks and best rates of all units, the baseline included, with diverged runs counted.
        steps: Place of the rates in grid steps, (studies, rates).
        confidence: Of one interval.
    """

    side: np.ndarray
    difference: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray
    peak_side: np.ndarray
    best_side: np.ndarray
    on_diverged: np.ndarray
    at_edge: np.ndarray
    too_coarse: np.ndarray
    fit: CurveFit
    steps: np.ndarray
    confidence: float


@dataclass(frozen=True)
class PairedT:
    """Paired t intervals of differences over seeds."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray

    @property
    def side(self) -> np.ndarray:
        """1 where the interval is above zero, -1 where it is below, else 0."""
        return np.where(self.low > 0, 1, np.where(self.high < 0, -1, 0))


def judge_factorial(
    runs: FactorialRuns,
    state: Progress,
    *,
    level: float = 0.05,
    comparisons: int | None = None,
) -> FactorialVerdicts:
    """Judge the studies of a batch.

    Args:
        runs: Of the batch.
        state: By ``factorial_progress``. Verdicts mean nothing where it has not ended.
        level: The accepted chance of any wrong verdict.
        comparisons: How many comparisons share the level; one per unit by default.
    """
    comparisons = comparisons or max(1, runs.values.shape[1] - 1)
    alpha = level / comparisons
    steps = grid_steps(runs.count)[None, :] / state.stride[:, None]
    used = state.used & ~runs.lost & state.ended[:, None, None, None]
    kept = state.kept
    heights = np.where(used, runs.values, 0.0)
    placing = np.where(used, runs.placing, 0.0)
    diverged = runs.diverged & used
    estimates: list[tuple[PairedT, PairedT]] = []
    fits: list[CurveFit] = []
    for fill in (at_worth, without_diverged):
        filled = fill(heights, diverged, runs.worth(runs.values, used))
        placed = fill(placing, diverged, runs.worth(runs.placing, used))
        fit = fit_curves(placed, kept, steps, runs.floor)
        at_peak = np.einsum("sur,surn->sun", fit.weights, filled)
        at_best = runs_at(filled, fit.best)
        fits.append(fit)
        peak_gap = at_peak[:, 1:] - at_peak[:, :1]
        best_gap = at_best[:, 1:] - at_best[:, :1]
        estimates.append(
            (paired_t(peak_gap, alpha, runs.floor), paired_t(best_gap, alpha, runs.floor))
        )
        if not diverged.any():
            break
    every = [one for pair in estimates for one in pair]
    low = np.min([one.low for one in every], 0)
    high = np.max([one.high for one in every], 0)
    agree = np.ptp(np.sign([one.mean for one in every]), 0) == 0
    p = np.where(agree, np.minimum(1.0, comparisons * np.max([one.p for one in every], 0)), 1.0)
    sides = [_joint_side(*pair) for pair in estimates]
    at_edge = state.at_edge[:, 1:] | state.at_edge[:, :1]
    too_coarse = state.too_coarse[:, 1:] | state.too_coarse[:, :1]
    joint = np.where(low > 0, 1, np.where(high < 0, -1, 0))
    return FactorialVerdicts(
        side=np.where(at_edge | too_coarse | ~state.ended[:, None], 0, joint),
        difference=estimates[0][0].mean,
        low=low,
        high=high,
        p=p,
        peak_side=estimates[0][0].side,
        best_side=estimates[0][1].side,
        on_diverged=sides[0] != sides[-1],
        at_edge=at_edge,
        too_coarse=too_coarse,
        fit=fits[0],
        steps=steps,
        confidence=1 - alpha,
    )


def paired_t(gaps: np.ndarray, alpha: float, floor: float) -> PairedT:
    """Return t intervals of the mean over the last axis at level ``1 - alpha``.

    Args:
        gaps: Differences by seed, at least two.
        alpha: Error rate of one interval.
        floor: The least standard deviation.
    """
    from scipy import special

    n = gaps.shape[-1]
    mean = gaps.mean(-1)
    error = np.maximum(gaps.std(-1, ddof=1), floor) / np.sqrt(n)
    half = -special.stdtrit(n - 1, alpha / 2) * error
    sure = np.where(mean == 0, 0.0, np.inf)
    size = np.divide(np.abs(mean), error, out=sure, where=error > 0)
    return PairedT(mean, mean - half, mean + half, 2 * special.stdtr(n - 1, -size))


def _joint_side(peak: PairedT, best: PairedT) -> np.ndarray:
    """Return what both estimates say, 0 where they do not agree."""
    return np.where(peak.side == best.side, peak.side, 0)
