"""Compare methods whose learning rate was chosen on held-out data.

Note [Confirmed differences]. A rate that was chosen wrongly makes every final run of a method too
low, and more seeds do not average that away. So a method is better only if, at its chosen rate, it
beats the baseline at the baseline's chosen rate and at both rates next to it. It is worse only if
the baseline beats it at its chosen rate and at both rates next to that. The interval runs from the
smallest lower end over the baseline's rates to the largest upper end over the method's. Seven
methods equal to the baseline got any false verdict in 30 to 43 % of simulated studies without this
rule, and in 1 to 2.5 % with it.

Note [A neighbour at which every run diverged]. No pairs are left there, so that only the diverged
runs at the worst value of all runs are compared. A method whose training diverges at a rate next to
the chosen one is not better there. The interval includes this comparison.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.stats.checks import is_finite
from gatewise.stats.comparison import (
    UNDECIDED,
    Comparison,
    Decision,
    Difference,
    Estimate,
    Rules,
    Seeds,
    check_seeds,
    decide,
    describe,
    estimates_of,
    make_rules,
    summarise,
    worst_value,
)
from gatewise.stats.new_examples import NewExamples, for_new_examples

ON_RATE = "depends on the learning rate"
NOT_CONFIRMED = "not confirmed at the neighbouring learning rates"

Rates = Mapping[float, Seeds]


def compare_tuned_runs(
    results: Mapping[str, Rates],
    chosen: Mapping[str, float],
    baseline: str,
    *,
    grid: Sequence[float] | None = None,
    level: float = 0.05,
    higher_is_better: bool = True,
    margin: float | None = None,
    comparisons: int | None = None,
    resolution: float = 0.0,
    paired: bool | None = None,
    correct: Mapping[str, Mapping[float, Mapping[Any, Any]]] | None = None,
) -> Comparison:
    """Compare methods at their chosen learning rates. See Note [Confirmed differences].

    Args:
        results: Method to {learning rate: {seed: value}}, of the chosen rate and of the rates
            next to it that were run. NaN or infinity is a run that diverged.
        chosen: Method to its chosen learning rate.
        baseline: The method that all others are compared with.
        grid: The learning rates that could be chosen. The rates next to a chosen one are its
            neighbours in this list. By default the rates of all results together.
        level: The accepted chance of any wrong verdict.
        higher_is_better: Whether a larger value is the better one.
        margin: Differences smaller than this count as equivalent.
        comparisons: How many comparisons share the level; by default one per method.
        resolution: The smallest step of the metric, for example 1 / test examples.
        paired: None to pair runs by their seeds where they overlap, False to pair none.
        correct: Method to {learning rate: {seed: right or wrong by test example}}.

    Returns:
        One row per method. Its interval spans the rates that were run. Where neighbours that a
        verdict needs were not run, the method is undecided, without an interval, and the reason
        is ``"not confirmed at the neighbouring learning rates"``.

    Raises:
        ArgumentError: If the baseline or a chosen rate has no results, or an argument is out of
            range.
    """
    study = _read(results, chosen, baseline, grid, "compare_tuned_runs")
    rules = make_rules(
        len(study.values) - 1,
        level,
        higher_is_better,
        margin,
        comparisons,
        resolution,
        paired,
    )
    differences = []
    for name in study.values:
        if name != baseline:
            differences.append(_difference(study, name, rules, correct))
    return summarise(baseline, study.final(baseline), rules, differences)


def needs_confirmation(
    results: Mapping[str, Rates],
    chosen: Mapping[str, float],
    baseline: str,
    *,
    grid: Sequence[float] | None = None,
    level: float = 0.05,
    higher_is_better: bool = True,
    margin: float | None = None,
    comparisons: int | None = None,
    resolution: float = 0.0,
    paired: bool | None = None,
) -> list[tuple[str, float]]:
    """Return the methods and learning rates that must still be run before a verdict is printed.

    Where a method is better so far, these are the rates next to the baseline's. Where it is
    worse, these are the rates next to its own. A rate counts as run if it has every seed that the
    chosen rate has.

    Args:
        results: Method to {learning rate: {seed: value}}.
        chosen: Method to its chosen learning rate.
        baseline: The method that all others are compared with.
        grid: The learning rates that could be chosen.
        level: The accepted chance of any wrong verdict.
        higher_is_better: Whether a larger value is the better one.
        margin: Differences smaller than this count as equivalent.
        comparisons: How many comparisons share the level.
        resolution: The smallest step of the metric.
        paired: Whether runs are paired by seed.
    """
    study = _read(results, chosen, baseline, grid, "needs_confirmation")
    rules = make_rules(
        len(study.values) - 1,
        level,
        higher_is_better,
        margin,
        comparisons,
        resolution,
        paired,
    )
    needed: dict[tuple[str, float], None] = {}
    for name in study.values:
        if name == baseline:
            continue
        verdict = study.decide(name, rules).verdict
        tested = {"better": baseline, "worse": name}.get(verdict)
        if tested is None:
            continue
        for rate in study.neighbours(tested):
            if not study.complete(tested, rate):
                needed[tested, rate] = None
    return list(needed)


@dataclass(frozen=True)
class RequiredEstimates:
    """The estimates of one method that a verdict must hold in.

    Attributes:
        lower: Their lower ends must be above zero for the lower end of the interval to be. The
            first is of the runs at the chosen rates that did not diverge.
        upper: The same for the upper end.
        confirmed_better: Whether the neighbouring rates that "better" needs were run.
        confirmed_worse: Whether those that "worse" needs were run.
    """

    lower: Sequence[Estimate]
    upper: Sequence[Estimate]
    confirmed_better: bool
    confirmed_worse: bool


def required_estimates(
    results: Mapping[str, Any],
    chosen: Mapping[str, float] | None,
    baseline: str,
    rules: Rules,
    grid: Sequence[float] | None,
) -> RequiredEstimates:
    """Return what the verdict on the one other method of ``results`` must hold in.

    Args:
        results: The baseline and one method.
        chosen: Their learning rates; None if results are by seed only.
        baseline: One of the two.
        rules: Of the comparison.
        grid: The learning rates that could be chosen.
    """
    if chosen is None:
        results = {name: {1.0: by_seed} for name, by_seed in results.items()}
        chosen = dict.fromkeys(results, 1.0)
        grid = None
    study = _read(results, chosen, baseline, grid, "compare")
    name = next(name for name in study.values if name != baseline)
    _, over_baseline, over_method = study.estimates(name, rules)
    higher = rules.higher_is_better
    return RequiredEstimates(
        lower=over_baseline if higher else over_method,
        upper=over_method if higher else over_baseline,
        confirmed_better=study.confirmed(baseline),
        confirmed_worse=study.confirmed(name),
    )


@dataclass(frozen=True)
class _Study:
    """Checked results of methods at several learning rates."""

    values: Mapping[str, Mapping[float, Seeds]]
    chosen: Mapping[str, float]
    baseline: str
    grid: Sequence[float]

    def final(self, name: str) -> Seeds:
        """Return the runs at the chosen rate."""
        return self.values[name][self.chosen[name]]

    def neighbours(self, name: str) -> list[float]:
        """Return the rates of the grid next to the chosen one."""
        rate = self.chosen[name]
        below = bisect_left(self.grid, rate) - 1
        above = bisect_right(self.grid, rate)
        nearby = []
        if below >= 0:
            nearby.append(self.grid[below])
        if above < len(self.grid):
            nearby.append(self.grid[above])
        return nearby

    def complete(self, name: str, rate: float) -> bool:
        """Return whether a rate was run with every seed of the chosen one."""
        return self.values[name].get(rate, {}).keys() >= self.final(name).keys()

    def rates(self, name: str) -> list[float]:
        """Return the chosen rate and the neighbours that were run, the chosen one first."""
        run = [rate for rate in self.neighbours(name) if self.values[name].get(rate)]
        return [self.chosen[name], *run]

    def confirmed(self, name: str) -> bool:
        """Return whether all neighbours of a method were run."""
        return len(self.rates(name)) == 1 + len(self.neighbours(name))

    def estimates(
        self,
        name: str,
        rules: Rules,
    ) -> tuple[list[Estimate], list[Estimate], list[Estimate]]:
        """Return the estimates at the chosen rates, over the baseline's rates, and over our own."""
        groups: list[Seeds] = []
        for rates in self.values.values():
            groups += rates.values()
        worst = worst_value(groups, rules)
        ours = self.final(name)
        theirs = self.final(self.baseline)
        at_chosen = estimates_of(ours, theirs, rules, worst)
        over_baseline = list(at_chosen)
        for rate in self.rates(self.baseline)[1:]:
            over_baseline += _at_neighbour(ours, self.values[self.baseline][rate], rules, worst)
        over_method = list(at_chosen)
        for rate in self.rates(name)[1:]:
            over_method += _at_neighbour(self.values[name][rate], theirs, rules, worst)
        return at_chosen, over_baseline, over_method

    def decide(self, name: str, rules: Rules) -> Decision:
        """Return what the rates that were run say about a method."""
        _, over_baseline, over_method = self.estimates(name, rules)
        return decide(over_baseline, over_method, rules)


def _at_neighbour(ours: Seeds, theirs: Seeds, rules: Rules, worst: float) -> list[Estimate]:
    """Return the estimates with the runs at a neighbouring rate.

    See Note [A neighbour at which every run diverged].
    """
    estimates = estimates_of(ours, theirs, rules, worst)
    if _all_diverged(ours) or _all_diverged(theirs):
        return estimates[1:]
    return estimates


def _all_diverged(runs: Seeds) -> bool:
    """Return whether there are runs and none of them finished."""
    return bool(runs) and not any(map(math.isfinite, runs.values()))


def _difference(
    study: _Study,
    name: str,
    rules: Rules,
    correct: Mapping[str, Any] | None,
) -> Difference:
    """Return the row of one method."""
    at_chosen, over_baseline, over_method = study.estimates(name, rules)
    decision = decide(over_baseline, over_method, rules)
    reason = ""
    tested = {"better": study.baseline, "worse": name}.get(decision.verdict)
    if tested and not study.confirmed(tested):
        decision = _unconfirmed(decision)
        reason = NOT_CONFIRMED
    elif not decision.decided and decide(at_chosen, at_chosen, rules).decided:
        reason = ON_RATE
    new = _new_examples(study, name, decision, rules, correct)
    ours = study.final(name)
    theirs = study.final(study.baseline)
    return describe(name, ours, theirs, at_chosen[0], decision, rules, reason=reason, new=new)


def _unconfirmed(decision: Decision) -> Decision:
    """Return a decision without an interval: the end that decides is not known yet."""
    return replace(
        decision,
        interval=(math.nan, math.nan),
        p=math.nan,
        p_corrected=1.0,
        verdict=UNDECIDED,
    )


def _new_examples(
    study: _Study,
    name: str,
    decision: Decision,
    rules: Rules,
    correct: Mapping[str, Any] | None,
) -> NewExamples | None:
    """Return what holds for new examples at every rate that the verdict was tested at."""
    if not isinstance(correct, Mapping):
        return None
    baseline = study.baseline
    ours, theirs = study.chosen[name], study.chosen[baseline]
    pairs = [(ours, theirs)]
    # At a rate at which every run diverged there is no network that could read new examples.
    if decision.verdict == "better":
        for rate in study.rates(baseline)[1:]:
            if not _all_diverged(study.values[baseline][rate]):
                pairs.append((ours, rate))
    elif decision.verdict == "worse":
        for rate in study.rates(name)[1:]:
            if not _all_diverged(study.values[name][rate]):
                pairs.append((rate, theirs))
    judged = []
    for our_rate, their_rate in pairs:
        judged.append(
            for_new_examples(
                _at(correct, name, our_rate),
                _at(correct, baseline, their_rate),
                study.values[name][our_rate],
                study.values[baseline][their_rate],
                rules.alpha,
                decision.verdict if decision.decided else UNDECIDED,
                rules.higher_is_better,
            )
        )
    known = [one for one in judged if one is not None]
    if len(known) < len(judged):
        return None
    verdict = known[0].verdict
    low, high = known[0].interval
    for one in known[1:]:
        low = min(low, one.interval[0])
        high = max(high, one.interval[1])
        if one.verdict != verdict:
            verdict = UNDECIDED
    return replace(known[0], verdict=verdict, interval=(low, high))


def _at(correct: Mapping[str, Any], name: str, rate: float) -> Mapping[Any, Any]:
    """Return right and wrong by seed of a method at a rate; empty if there is none."""
    by_rate = correct.get(name, {})
    by_seed = by_rate.get(rate, {}) if isinstance(by_rate, Mapping) else {}
    return by_seed if isinstance(by_seed, Mapping) else {}


def _read(results: Any, chosen: Any, baseline: Any, grid: Any, where: str) -> _Study:
    """Return the results as plain numbers, or raise."""
    label: Any = baseline
    for name, value in (("results", results), ("chosen", chosen)):
        if not isinstance(value, Mapping):
            raise ArgumentError(f"{where}: {name} must be a mapping", got=type(value).__name__)
    if not isinstance(baseline, Hashable) or baseline not in results:
        raise ArgumentError(
            f"{where}: the baseline has no results",
            got=baseline,
            allowed=", ".join(map(str, results)),
        )
    values: dict[str, dict[float, Seeds]] = {}
    for name, by_rate in results.items():
        if not isinstance(by_rate, Mapping):
            raise ArgumentError(
                f"{where}: {name}: values must be a mapping from learning rates",
                got=type(by_rate).__name__,
            )
        values[name] = {}
        for rate, by_seed in by_rate.items():
            _check_rate(rate, f"{where}: {name}")
            values[name][rate] = check_seeds(by_seed, f"{where}: {name} at {rate:g}")
        if not is_finite(chosen.get(name)) or not values[name].get(chosen[name]):
            raise ArgumentError(
                f"{where}: {name} has no results at its chosen learning rate",
                got=chosen.get(name),
                allowed=", ".join(f"{rate:g}" for rate in values[name]),
            )
    return _Study(values, chosen, label, _grid(values, grid, where))


def _grid(values: Mapping[str, Rates], grid: Any, where: str) -> list[float]:
    """Return the learning rates in order; by default all that have results."""
    if grid is None:
        return sorted(set().union(*values.values()))
    if isinstance(grid, str | Mapping) or not hasattr(grid, "__iter__"):
        raise ArgumentError(f"{where}: grid must be a list of learning rates", got=grid)
    rates = list(grid)
    for rate in rates:
        _check_rate(rate, f"{where}: grid")
    return sorted(set(rates))


def _check_rate(rate: Any, where: str) -> None:
    """Raise unless a learning rate is a positive number."""
    if not (is_finite(rate) and rate > 0):
        raise ArgumentError(f"{where}: a learning rate is not a number above 0", got=rate)
