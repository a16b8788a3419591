"""Which runs a study still asks for. See Note [Rates are dropped and added].

Note [Rates are dropped and added].

1. After the first three seeds are complete, a rate far below the unit's best is dropped for that
   unit (racing).
2. After all seeds, a rate is added at an end of the grid for every unit if some unit is clearly
   best there. This happens at most twice.
3. Then, if some unit has fewer than three rates near its best, every unit gets the half-way rates.
   This happens once.

Each decision reads only the runs that the earlier ones asked for, in the order of seeds. So the
runs do not depend on the order in which workers finish.
"""

from dataclasses import dataclass, replace

import numpy as np

from gatewise.stats.factorial.curve_fit import curve_means, noise_scale, runs_at
from gatewise.stats.factorial.grid import EDGE_ROUNDS, grid_steps, planned_steps
from gatewise.stats.factorial.runs import FactorialRuns, without_diverged

# Racing looks at the first seeds only.
FIRST_SEEDS = 3
# A rate this many standard deviations below the best is dropped.
DROPPED_BELOW = 20.0
# A rate counts if it is at most this many standard deviations below the best.
COUNTED_WITHIN = 12.0
# The fewest rates that must count.
FEWEST_COUNTED = 3
# A best rate at an end is clear if it beats every inner rate by this many standard errors.
CLEAR_EDGE = 2.0


@dataclass(frozen=True)
class Progress:
    """How far the studies of a batch are.

    Attributes:
        rates: Rates that every unit is to run, (studies, rates).
        kept: Rates that the verdict is taken from, (studies, units, rates).
        stride: Half steps between two rates of the grid, one a study: 2, or 1 with half-way rates.
        used: Runs that the study with these rates consists of, (studies, units, rates, seeds).
        asked: Those of them that are missing.
        ended: Studies that ask for nothing more.
        at_edge: Units whose best rate is clearly at an end of the grid, (studies, units). The last
            attributes have a meaning only where the study has ended.
        too_coarse: Units with fewer than three rates near their best.
    """

    rates: np.ndarray
    kept: np.ndarray
    stride: np.ndarray
    used: np.ndarray
    asked: np.ndarray
    ended: np.ndarray
    at_edge: np.ndarray
    too_coarse: np.ndarray


@dataclass(frozen=True)
class _Ends:
    """Units whose good rates touch the ends of the grid, each (studies, units)."""

    low: np.ndarray
    high: np.ndarray
    few: np.ndarray


def factorial_progress(runs: FactorialRuns, *, widen: bool = True) -> Progress:
    """Return which runs are still asked for, and which rates the verdict is taken from.

    Args:
        runs: Of a batch of studies.
        widen: Whether rates can be added. False for records of runs that were made elsewhere.
    """
    studies, units, rates, _ = runs.values.shape
    planned = np.isin(grid_steps(runs.count), planned_steps(runs.count))
    state = Progress(
        rates=np.broadcast_to(planned, (studies, rates)).copy(),
        kept=np.zeros((studies, units, rates), bool),
        stride=np.full(studies, 1 if runs.count == 1 else 2),
        used=np.zeros(runs.values.shape, bool),
        asked=np.zeros(runs.values.shape, bool),
        ended=np.zeros(studies, bool),
        at_edge=np.zeros((studies, units), bool),
        too_coarse=np.zeros((studies, units), bool),
    )
    state = _raced(runs, state)
    if runs.count == 1:
        return state
    if widen:
        for _ in range(EDGE_ROUNDS):
            state = _raced(runs, _widened(state, _ends(runs, state)))
        state = _raced(runs, _refined(state, _ends(runs, state)))
    ends = _ends(runs, state)
    too_few = state.ended[:, None] & np.less(state.kept.sum(-1), FEWEST_COUNTED)
    return replace(state, at_edge=ends.low | ends.high, too_coarse=ends.few | too_few)


def _raced(runs: FactorialRuns, state: Progress) -> Progress:
    """Drop the rates far below the best of the first seeds, and list the missing runs."""
    grid = state.rates[:, None] & ~runs.lost.any(-1)
    first = grid[..., None] & (np.arange(runs.values.shape[-1]) < FIRST_SEEDS)
    begun = ~(first & ~runs.present).any((1, 2, 3))
    values = runs.placing[..., :FIRST_SEEDS]
    worth = runs.worth(runs.placing, first)
    values = without_diverged(values, runs.diverged[..., :FIRST_SEEDS], worth)
    values = np.where(grid[..., None] & begun[:, None, None, None], values, 0.0)
    means = curve_means(values, grid)
    depth = DROPPED_BELOW * noise_scale(values, means, runs.floor)[:, None, None]
    kept = grid & ((means >= means.max(-1, keepdims=True) - depth) | _near_best(grid, means))
    kept = np.where(begun[:, None, None], kept, grid)
    used = first | (kept & begun[:, None, None])[..., None]
    if runs.count == 1:
        # The pairs that are left can be compared, so a lost run does not end its unit.
        used = np.broadcast_to(state.rates[:, None, :, None], runs.values.shape)
    asked = used & ~runs.present & ~runs.lost
    return replace(state, kept=kept, used=used, asked=asked, ended=~asked.any((1, 2, 3)))


def _near_best(grid: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Return the best rate and its neighbours; at an end of the grid the last three."""
    order = np.cumsum(grid, -1) - 1
    best = np.take_along_axis(order, means.argmax(-1)[..., None], -1)
    middle = np.clip(best, 1, np.maximum(grid.sum(-1, keepdims=True) - 2, 1))
    return np.abs(order - middle) <= 1


def _ends(runs: FactorialRuns, state: Progress) -> _Ends:
    """Return which units have their good rates at an end of the grid that was run."""
    grid = state.rates[:, None] & ~runs.lost.any(-1)
    values = without_diverged(runs.placing, runs.diverged, runs.worth(runs.placing, state.used))
    values = np.where(state.kept[..., None] & state.ended[:, None, None, None], values, 0.0)
    means = curve_means(values, state.kept)
    best = means.argmax(-1)
    last = grid.shape[-1] - 1
    lowest = grid.argmax(-1)
    highest = last - grid[..., ::-1].argmax(-1)
    place = np.arange(last + 1)
    outer = (place == lowest[..., None]) | (place == highest[..., None])
    gaps = runs_at(values, best)[:, :, None] - values
    spread = np.maximum(gaps.std(-1, ddof=1), runs.floor)
    ahead = gaps.mean(-1) > CLEAR_EDGE * spread / np.sqrt(gaps.shape[-1])
    clear = (ahead | outer | ~state.kept).all(-1)

    depth = COUNTED_WITHIN * noise_scale(values, means, runs.floor)[:, None, None]
    counted = state.kept & (means >= means.max(-1, keepdims=True) - depth)
    # A unit that lost its rates asks for no others.
    few = np.less(counted.sum(-1), FEWEST_COUNTED) & np.greater_equal(grid.sum(-1), FEWEST_COUNTED)
    low_counts = np.take_along_axis(counted, lowest[..., None], -1)[..., 0]
    high_counts = np.take_along_axis(counted, highest[..., None], -1)[..., 0]
    ended = state.ended[:, None]
    return _Ends(
        low=ended & (((best == lowest) & clear) | (few & low_counts)),
        high=ended & (((best == highest) & clear) | (few & high_counts)),
        few=ended & few,
    )


def _widened(state: Progress, ends: _Ends) -> Progress:
    """Add a rate where some unit is clearly at an end of the grid."""
    rates = state.rates.copy()
    last = rates.shape[-1] - 1
    lowest = rates.argmax(-1) - state.stride
    highest = last - rates[:, ::-1].argmax(-1) + state.stride
    down = np.flatnonzero(ends.low.any(-1) & (lowest >= 0))
    up = np.flatnonzero(ends.high.any(-1) & (highest <= last))
    rates[down, lowest[down]] = True
    rates[up, highest[up]] = True
    return replace(state, rates=rates)


def _refined(state: Progress, ends: _Ends) -> Progress:
    """Add the half-way rates where some unit has too few rates that count."""
    coarse = np.asarray(ends.few.any(-1))
    inside = np.cumsum(state.rates, -1).astype(bool)
    inside &= np.cumsum(state.rates[:, ::-1], -1).astype(bool)[:, ::-1]
    return replace(
        state,
        rates=np.where(coarse[:, None], inside, state.rates),
        stride=np.where(coarse, 1, state.stride),
    )
