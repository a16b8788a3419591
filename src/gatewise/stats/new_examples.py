"""Whether a verdict also holds for new test examples.

Note [New examples]. Seeds that are tested on one test set say what new seeds would give on the same
test set. More seeds do not make that true of other examples. The right and wrong answers by example
give a second standard error, of a table with seeds in rows and examples in columns, both drawn at
random.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gatewise.errors import ArgumentError
from gatewise.stats.estimates import FEWEST, t_quantile

# A value this close to the share of right answers is an accuracy.
ACCURACY = 1e-5
SCALES = (1.0, 100.0)


@dataclass(frozen=True)
class NewExamples:
    """What holds for new test examples.

    Attributes:
        verdict: ``"better"`` or ``"worse"`` if the verdict over seeds holds for new examples too,
            else ``"undecided"``.
        interval: Of the difference on new examples, at the level of the comparison.
        standard_error: Over seeds and examples together.
        seed_error: The standard error over seeds alone.
        freedom: Degrees of freedom of ``standard_error``.
        examples: How many test examples there were.
    """

    verdict: str
    interval: tuple[float, float]
    standard_error: float
    seed_error: float
    freedom: float
    examples: int


def for_new_examples(
    ours: Mapping[Any, Any],
    theirs: Mapping[Any, Any],
    our_values: Mapping[Any, float],
    their_values: Mapping[Any, float],
    alpha: float,
    verdict: str,
    higher_is_better: bool,
) -> NewExamples | None:
    """Return whether a verdict holds for new examples; None if that is not known.

    Args:
        ours: Right or wrong by example, for each seed of the method.
        theirs: The same of the baseline.
        our_values: The metric of the method by seed. If it is not the share of right or wrong
            answers, in parts of 1 or in percent, the answers say nothing about it.
        their_values: The metric of the baseline.
        alpha: The error rate of one interval.
        verdict: Over seeds: ``"better"``, ``"worse"`` or ``"undecided"``.
        higher_is_better: Whether larger values are better.
    """
    seeds = [
        seed
        for seed in ours
        if seed in theirs
        and math.isfinite(our_values.get(seed, math.nan))
        and math.isfinite(their_values.get(seed, math.nan))
    ]
    if len(seeds) < FEWEST:
        return None
    first = _table([ours[seed] for seed in seeds])
    second = _table([theirs[seed] for seed in seeds])
    if first.shape != second.shape:
        raise ArgumentError(
            "compare: correct has different numbers of examples",
            got=f"{first.shape[1]} and {second.shape[1]}",
        )
    if first.shape[1] < 2:
        return None
    factor = _factor(first, [our_values[seed] for seed in seeds])
    if factor is None or factor != _factor(second, [their_values[seed] for seed in seeds]):
        return None
    gap, error, seed_error, freedom = two_way(factor * (first - second))
    half = t_quantile(alpha / 2, freedom) * error
    low, high = gap - half, gap + half
    shown = "undecided"
    if low > 0 or high < 0:
        shown = "better" if (low > 0) == higher_is_better else "worse"
    return NewExamples(
        verdict=verdict if verdict == shown else "undecided",
        interval=(low, high),
        standard_error=error,
        seed_error=seed_error,
        freedom=freedom,
        examples=first.shape[1],
    )


def two_way(table: np.ndarray) -> tuple[float, float, float, float]:
    """Return mean, standard error, that over seeds alone, and degrees of freedom.

    Args:
        table: Differences with seeds in rows and examples in columns. Both are random.
    """
    seeds, examples = table.shape
    gap = float(table.mean())
    by_seed = table.mean(1)
    by_example = table.mean(0)
    rest = table - by_seed[:, None] - by_example + gap
    # Squared standard errors of the mean: over seeds, over examples, and of single answers.
    over_seeds = float(((by_seed - gap) ** 2).sum()) / (seeds - 1) / seeds
    over_examples = float(((by_example - gap) ** 2).sum()) / (examples - 1) / examples
    single = float((rest**2).sum()) / ((seeds - 1) * (examples - 1)) / (seeds * examples)
    # One example is the smallest step of a mean.
    step = float(np.abs(table).max(initial=1.0)) / examples
    over_seeds = max(over_seeds, step**2 / seeds)
    variance = max(over_seeds + over_examples - single, over_seeds, over_examples)
    spread = (
        over_seeds**2 / (seeds - 1)
        + over_examples**2 / (examples - 1)
        + single**2 / ((seeds - 1) * (examples - 1))
    )
    freedom = max(seeds - 1.0, variance**2 / spread)
    return gap, math.sqrt(variance), math.sqrt(over_seeds), freedom


def _table(rows: list[Any]) -> np.ndarray:
    """Return right and wrong as a table of zeros and ones, or raise."""
    try:
        table = np.array([np.asarray(row, dtype=np.float64) for row in rows], dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as problem:
        raise ArgumentError(
            "compare: correct must hold one list of right and wrong per seed, equally long",
            got=type(rows[0]).__name__,
        ) from problem
    if table.ndim != 2 or not np.isin(table, (0.0, 1.0)).all():
        raise ArgumentError(
            "compare: correct must hold only right (1) and wrong (0)", got=table.shape
        )
    return table


def _factor(correct: np.ndarray, values: list[float]) -> float | None:
    """Return what a right answer adds to the metric; None if the metric is not their share."""
    shares = correct.mean(1)
    for scale in SCALES:
        if np.allclose(scale * shares, values, rtol=0, atol=scale * ACCURACY):
            return scale
        if np.allclose(scale * (1 - shares), values, rtol=0, atol=scale * ACCURACY):
            return -scale
    return None
