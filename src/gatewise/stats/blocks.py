"""Statements about several blocks: pairs of methods in each, and means over all of them.

Note [Several blocks]. A block is a network on a data set with a recipe. Two intervals against the
baseline never show that two methods differ: their own paired difference does, at a level shared by
all pairs of all blocks. A mean over exactly these blocks needs three blocks. What holds for blocks
like these is Student's t over the means of the blocks, and needs five.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.stats.comparison import (
    BETTER,
    UNDECIDED,
    WORSE,
    Decision,
    Difference,
    Rules,
    compare_runs,
    decide,
    make_rules,
)
from gatewise.stats.estimates import Estimate, of_pairs
from gatewise.stats.summary import mean
from gatewise.stats.tuned import (
    NOT_CONFIRMED,
    RequiredEstimates,
    compare_tuned_runs,
    required_estimates,
)

THESE_BLOCKS = 3
BLOCKS_LIKE_THESE = 5


@dataclass(frozen=True)
class PairDifference:
    """Two methods in one block: ``difference`` is the first minus the second."""

    block: Hashable
    first: str
    second: str
    difference: Difference

    @property
    def better(self) -> str | None:
        """The method that is shown to be better; None if neither is."""
        return {BETTER: self.first, WORSE: self.second}.get(self.difference.verdict)


@dataclass(frozen=True)
class PairComparison:
    """All pairs of methods in all blocks, at one level for all of them.

    Attributes:
        level: The accepted chance of any wrong verdict.
        comparisons: Pairs times blocks.
        pairs: One entry per pair and block.
    """

    level: float
    comparisons: int
    pairs: tuple[PairDifference, ...]

    def reversals(self) -> list[tuple[PairDifference, PairDifference]]:
        """Return pairs of methods whose order is shown to differ between two blocks."""
        found = []
        for one, other in combinations(self.pairs, 2):
            same = (one.first, one.second) == (other.first, other.second)
            if same and one.better and other.better and one.better != other.better:
                found.append((one, other))
        return found

    def not_shown_beaten(self, block: Hashable) -> list[str]:
        """Return the methods of a block that no other method is shown to beat."""
        here = [pair for pair in self.pairs if pair.block == block]
        beaten = set()
        for pair in here:
            if pair.better:
                beaten.add(pair.second if pair.better == pair.first else pair.first)
        names: dict[str, None] = {}
        for pair in here:
            names.update({pair.first: None, pair.second: None})
        return [name for name in names if name not in beaten]


@dataclass(frozen=True)
class PooledDifference:
    """One method against the baseline, averaged over blocks.

    Attributes:
        name: The method.
        blocks: How many blocks have an interval for it.
        difference: The mean of the blocks' differences.
        interval: For exactly these blocks; it decides the verdict.
        confidence: One minus the level divided by the number of methods.
        p_corrected: At or below the level exactly when zero is outside ``interval``.
        verdict: For exactly these blocks.
        reason: Why it is undecided, if that is not the noise alone.
        new_blocks: The interval for blocks like these; None for fewer than five blocks.
        verdict_new_blocks: What it says; None for fewer than five blocks.
    """

    name: str
    blocks: int
    difference: float
    interval: tuple[float, float]
    confidence: float
    p_corrected: float
    verdict: str
    reason: str
    new_blocks: tuple[float, float] | None
    verdict_new_blocks: str | None


def compare_pairs(
    blocks: Mapping[Any, Any],
    *,
    chosen: Mapping[Hashable, Mapping[str, float]] | None = None,
    grid: Sequence[float] | None = None,
    level: float = 0.05,
    higher_is_better: bool = True,
    resolution: float = 0.0,
    paired: bool | None = None,
) -> PairComparison:
    """Compare every pair of methods in every block. See Note [Several blocks].

    Args:
        blocks: Block to its results: method to {seed: value}, or method to {learning rate:
            {seed: value}} if ``chosen`` is given.
        chosen: Block to the chosen learning rate of each method.
        grid: The learning rates that could be chosen.
        level: The accepted chance of any wrong verdict about any pair in any block.
        higher_is_better: Whether larger values are better.
        resolution: The smallest step of the metric.
        paired: Whether runs are paired by seed.
    """
    _check_blocks(blocks, "compare_pairs")
    todo = []
    for block, results in blocks.items():
        for first, second in combinations(results, 2):
            todo.append((block, first, second))
    pairs = []
    for block, first, second in todo:
        two = {second: blocks[block][second], first: blocks[block][first]}
        options: dict[str, Any] = {
            "level": level,
            "higher_is_better": higher_is_better,
            "comparisons": len(todo),
            "resolution": resolution,
            "paired": paired,
        }
        if chosen is None:
            comparison = compare_runs(two, second, **options)
        else:
            comparison = compare_tuned_runs(
                two,
                _chosen_in(chosen, block),
                second,
                grid=grid,
                **options,
            )
        pairs.append(PairDifference(block, first, second, comparison[first]))
    return PairComparison(level, max(1, len(todo)), tuple(pairs))


def pool_blocks(
    blocks: Mapping[Any, Any],
    baseline: str,
    *,
    chosen: Mapping[Hashable, Mapping[str, float]] | None = None,
    grid: Sequence[float] | None = None,
    level: float = 0.05,
    higher_is_better: bool = True,
    margin: float | None = None,
    resolution: float = 0.0,
    paired: bool | None = None,
) -> list[PooledDifference]:
    """Average every method's difference from the baseline over blocks.

    See Note [Several blocks].

    Args:
        blocks: Block to its results, as for :func:`compare_pairs`.
        baseline: The method that all others are compared with.
        chosen: Block to the chosen learning rate of each method, if rates were chosen.
        grid: The learning rates that could be chosen.
        level: The accepted chance of any wrong verdict.
        higher_is_better: Whether larger values are better.
        margin: Differences smaller than this count as equivalent.
        resolution: The smallest step of the metric.
        paired: Whether runs are paired by seed.

    Returns:
        One row per method that has an interval in at least three blocks.
    """
    _check_blocks(blocks, "pool_blocks")
    names: dict[str, None] = {}
    for results in blocks.values():
        names.update(dict.fromkeys(results))
    if not isinstance(baseline, Hashable) or baseline not in names:
        raise ArgumentError(
            "pool_blocks: the baseline has no results",
            got=baseline,
            allowed=", ".join(map(str, names)),
        )
    names.pop(baseline)
    rules = make_rules(len(names), level, higher_is_better, margin, None, resolution, paired)
    rows = []
    for name in names:
        parts = []
        for block, results in blocks.items():
            if results.get(name) and results.get(baseline):
                two = {baseline: results[baseline], name: results[name]}
                rates = None if chosen is None else _chosen_in(chosen, block)
                required = required_estimates(two, rates, baseline, rules, grid)
                if required.lower[0].known and not required.lower[0].flat:
                    parts.append(required)
        if len(parts) >= THESE_BLOCKS:
            rows.append(_pooled(name, parts, rules))
    return rows


def _pooled(name: str, parts: Sequence[RequiredEstimates], rules: Rules) -> PooledDifference:
    """Return the row of one method from what was tested in each block."""
    lower = [_mean_of([_extreme(part.lower, rules.alpha, 0) for part in parts])]
    upper = [_mean_of([_extreme(part.upper, rules.alpha, 1) for part in parts])]
    decision = (
        decide(lower, upper, rules) if rules.higher_is_better else decide(upper, lower, rules)
    )
    differences = [part.lower[0].difference for part in parts]
    reason = ""
    if decision.decided:
        good = decision.verdict == BETTER
        if not all(part.confirmed_better if good else part.confirmed_worse for part in parts):
            decision = Decision(
                (math.nan, math.nan),
                (math.nan, math.nan),
                math.nan,
                1.0,
                UNDECIDED,
            )
            reason = NOT_CONFIRMED
    new_blocks = None
    verdict = None
    if len(parts) >= BLOCKS_LIKE_THESE:
        over_blocks = of_pairs(differences, resolution=rules.resolution)
        new = decide([over_blocks], [over_blocks], rules)
        new_blocks = new.interval
        verdict = new.verdict if not reason else UNDECIDED
    return PooledDifference(
        name=name,
        blocks=len(parts),
        difference=mean(differences),
        interval=decision.interval,
        confidence=1 - rules.alpha,
        p_corrected=decision.p_corrected,
        verdict=decision.verdict,
        reason=reason,
        new_blocks=new_blocks,
        verdict_new_blocks=verdict,
    )


def _extreme(estimates: Sequence[Estimate], alpha: float, end: int) -> Estimate:
    """Return the estimate with the smallest lower end (0) or the largest upper end (1)."""
    for one in estimates:
        if math.isnan(one.bounds(alpha)[end]):
            return one
    return min(
        estimates, key=lambda one: one.bounds(alpha)[0] if end == 0 else -one.bounds(alpha)[1]
    )


def _mean_of(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean of independent estimates, with Satterthwaite's degrees of freedom."""
    count = len(estimates)
    largest = max(one.standard_error for one in estimates)
    squares = [(one.standard_error / largest) ** 2 for one in estimates]
    rest = sum(square**2 / one.freedom for square, one in zip(squares, estimates, strict=True))
    error = largest * math.sqrt(sum(squares)) / count
    return Estimate(
        difference=mean([one.difference for one in estimates]),
        standard_error=error,
        freedom=sum(squares) ** 2 / rest,
        spread=math.nan,
        n=count,
        method="t over blocks",
    )


def _check_blocks(blocks: Any, where: str) -> None:
    """Raise unless blocks map to results."""
    results = list(blocks.values()) if isinstance(blocks, Mapping) else [None]
    for methods in results:
        values = list(methods.values()) if isinstance(methods, Mapping) else [None]
        for runs in values:
            if not isinstance(runs, Mapping):
                raise ArgumentError(
                    f"{where}: blocks must map every block to {{method: {{seed: value}}}}",
                    got=type(blocks).__name__,
                )


def _chosen_in(chosen: Any, block: Hashable) -> Mapping[str, float]:
    """Return the chosen rates of a block, or raise."""
    if not isinstance(chosen, Mapping) or not isinstance(chosen.get(block), Mapping):
        raise ArgumentError("chosen must map every block to {method: learning rate}", got=chosen)
    return chosen[block]
