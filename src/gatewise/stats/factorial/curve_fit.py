"""Fit the peak of rate curves. See Note [The height of the peak is linear in the runs].

Note [The height of the peak is linear in the runs]. The weights of the fit and the place of the
peak are fixed from the means over all seeds. The height there is then a weighted sum of the values
at the rates. The same sum, applied to each seed's own curve, gives one number per unit and seed.
The fit has no ridge: adding a constant to all runs adds it to the height.
"""

from dataclasses import dataclass

import numpy as np

# A rate this many standard deviations below the best has the weight exp(-1/2).
DEPTH = 4.0
# The same for the distance from the centre of the good rates, in grid steps.
REACH = 1.2
# The least weight, relative to the largest: keeps the equations solvable.
LEAST_WEIGHT = 1e-9


@dataclass(frozen=True)
class CurveFit:
    """Where the curves have their best rates and peaks.

    Attributes:
        best: Index of the best rate tried, (studies, units).
        peak: Place of the peak in grid steps from the best rate, (studies, units).
        weights: Of the rates in the height of the peak, (studies, units, rates).
        scale: The standard deviation of a run, one a study.
    """

    best: np.ndarray
    peak: np.ndarray
    weights: np.ndarray
    scale: np.ndarray


def curve_means(values: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return the means over seeds, minus infinity at rates that are not kept."""
    return np.where(kept, values.mean(-1), -np.inf)


def runs_at(values: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Return the runs (studies, units, seeds) at one rate per unit."""
    return np.take_along_axis(values, rate[..., None, None], 2)[:, :, 0]


def noise_scale(values: np.ndarray, means: np.ndarray, floor: float) -> np.ndarray:
    """Return the median over units of the standard deviation over seeds at the best rate.

    Args:
        values: Runs of all units, the baseline included.
        means: Their means over seeds.
        floor: The least scale: one image.
    """
    at_best = runs_at(values, means.argmax(-1))
    rounding = 1e-12 * np.maximum(1e-200, np.abs(at_best).max((1, 2)))
    least = np.maximum(rounding, floor)
    if at_best.shape[-1] < 2:
        return least
    has_rates = np.isfinite(means).any(-1)
    # A unit without rates does not count. Neither does a study without units.
    has_rates |= ~has_rates.any(-1, keepdims=True)
    spread = np.where(has_rates, at_best.std(-1, ddof=1), np.nan)
    return np.maximum(np.nanmedian(spread, -1), least)


def fit_curves(values: np.ndarray, kept: np.ndarray, steps: np.ndarray, floor: float) -> CurveFit:
    """Fit a weighted parabola to every curve and place its peak.

    Args:
        values: Runs, (studies, units, rates, seeds).
        kept: Rates of the fit, (studies, units, rates).
        steps: Place of the rates in grid steps, (studies, rates).
        floor: The smallest step of the metric.
    """
    means = curve_means(values, kept)
    best = means.argmax(-1)
    scale = noise_scale(values, means, floor)
    place = np.broadcast_to(steps[:, None], means.shape)
    from_best = place - np.take_along_axis(place, best[..., None], -1)
    weights = _fit_weights(means, kept, from_best, DEPTH * scale)

    columns = np.stack([from_best**2, from_best, np.ones_like(from_best)], -1)
    weighted = columns * weights[..., None]
    normal = np.swapaxes(weighted, -1, -2) @ columns
    fitted = kept.sum(-1) >= 3
    normal = np.where(fitted[..., None, None], normal, np.eye(3))
    heights = np.where(kept, means, 0.0)[..., None]
    parabola = np.linalg.solve(normal, np.swapaxes(weighted, -1, -2) @ heights)[..., 0]
    curvature = parabola[..., 0]
    has_top = fitted & (curvature < 0)
    top = -parabola[..., 1] / np.where(has_top, 2 * curvature, -1.0)
    lowest = np.where(kept, from_best, np.inf).min(-1)
    highest = np.where(kept, from_best, -np.inf).max(-1)
    peak = np.where(has_top, top, 0.0)
    peak = np.where(fitted, np.clip(peak, np.maximum(lowest, -1), np.minimum(highest, 1)), 0.0)

    at_peak = np.stack([peak**2, peak, np.ones_like(peak)], -1)[..., None]
    linear = (weighted @ np.linalg.solve(normal, at_peak))[..., 0]
    only_best = np.arange(means.shape[-1]) == best[..., None]
    linear = np.where(fitted[..., None], linear, only_best)
    return CurveFit(best=best, peak=peak, weights=linear, scale=scale)


def _fit_weights(
    means: np.ndarray,
    kept: np.ndarray,
    from_best: np.ndarray,
    depth: np.ndarray,
) -> np.ndarray:
    """Return the weights of the squared errors: large where a rate is good and near the good ones.

    Args:
        means: Curves, minus infinity at rates that are not kept.
        kept: The rates of the fit.
        from_best: Their place in grid steps.
        depth: How far below the best a rate has the weight exp(-1/2), one a study.
    """
    empty = ~kept.any(-1, keepdims=True)
    highest = np.where(empty, 0.0, means.max(-1, keepdims=True))
    below = highest - np.where(kept, means, 0.0)
    good = np.where(kept, np.exp(-((below / depth[:, None, None]) ** 2) / 2), empty)
    centre = (from_best * good).sum(-1, keepdims=True) / good.sum(-1, keepdims=True)
    weights = good * np.exp(-(((from_best - centre) / REACH) ** 2) / 2)
    return np.where(kept, weights / weights.max(-1, keepdims=True) + LEAST_WEIGHT, 0.0)
