"""Compare methods with a baseline over seeds. See Note [One interval] and Note [Diverged runs].

Note [Diverged runs]. A value that is not finite is a run that diverged. It is a result: leaving it
out makes a method look better than it is. A verdict must hold twice, with the pairs that are left
and with every diverged run at the worst value that any run reached. The interval spans both.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gatewise.checks import check_count, check_flag, check_number, is_number
from gatewise.errors import ArgumentError
from gatewise.stats.estimates import FEWEST, Estimate, estimate, spread_of
from gatewise.stats.new_examples import NewExamples, for_new_examples
from gatewise.stats.power import detectable, plan_seeds
from gatewise.stats.sign_flips import permutation_p, smallest_flip_p
from gatewise.stats.summary import mean

# Values beyond this count as diverged; their squares would not be finite.
LARGEST = 1e100
BETTER = "better"
WORSE = "worse"
EQUIVALENT = "equivalent"
UNDECIDED = "undecided"
TOO_FEW = "fewer than three seeds"
ALL_DIVERGED = "every run diverged"
ALL_EQUAL = "the differences do not vary"
ON_DIVERGED = "depends on what a diverged run is worth"
ON_NORMALITY = "depends on normality"
UNEQUAL_GROUPS = "spreads and numbers of runs differ by more than a factor of two"

Seeds = Mapping[Any, float]
Results = Mapping[str, Seeds]


@dataclass(frozen=True)
class Difference:
    """One method against the baseline.

    Attributes:
        name: The method.
        n: Complete pairs, or runs of the method if the runs are not paired.
        mean: Of the method's runs that did not diverge.
        spread: Their standard deviation; NaN for one run.
        difference: The method's mean minus the baseline's, over the runs that were compared.
        interval: Of the difference, at level ``confidence``. It decides the verdict. NaN if there
            is none.
        confidence: One minus the error rate divided by the number of comparisons.
        interval_alone: The interval without correction for the number of comparisons.
        p: Two-sided p-value that belongs to the interval.
        p_corrected: Times the number of comparisons. At or below the level exactly when zero is
            outside ``interval``.
        p_exact: By sign flips, before correction: a check of the p-value. NaN without pairs.
        verdict: ``"better"``, ``"worse"``, ``"equivalent"`` (inside the margin) or
            ``"undecided"``.
        reason: Why it is undecided, if that is not the noise alone; or ``"depends on
            normality"`` where the exact test disagrees with the interval.
        detectable: The smallest difference that these runs show with a chance of 80 %.
        seeds_needed: Seeds that show a difference as large as the margin, or half as large as
            ``detectable`` without a margin, and the seeds to be safe. None if decided.
        method: ``"paired t"``, ``"Welch's t"`` or ``"partially overlapping t"``.
        diverged: Runs of the method that diverged.
        new_examples: What holds for new test examples; None if not known.
        note: A warning about the test, in words; empty if there is none.
    """

    name: str
    n: int
    mean: float
    spread: float
    difference: float
    interval: tuple[float, float]
    confidence: float
    interval_alone: tuple[float, float]
    p: float
    p_corrected: float
    p_exact: float
    verdict: str
    reason: str
    detectable: float | None
    seeds_needed: tuple[int, int] | None
    method: str
    diverged: int
    new_examples: NewExamples | None = None
    note: str = ""


@dataclass(frozen=True)
class Comparison:
    """All methods against one baseline.

    Attributes:
        baseline: The method that the others are compared with.
        baseline_mean: Of its runs that did not diverge.
        baseline_spread: Their standard deviation.
        n: Their number.
        level: The accepted chance of any wrong verdict.
        comparisons: The number of comparisons that share the level.
        margin: Differences smaller than this count as equivalent; None if none was stated.
        higher_is_better: Whether larger values are better.
        differences: One per method.
        baseline_diverged: Runs of the baseline that diverged.
    """

    baseline: str
    baseline_mean: float
    baseline_spread: float
    n: int
    level: float
    comparisons: int
    margin: float | None
    higher_is_better: bool
    differences: tuple[Difference, ...]
    baseline_diverged: int = 0

    def __getitem__(self, name: str) -> Difference:
        for difference in self.differences:
            if difference.name == name:
                return difference
        raise ArgumentError(
            "comparison: no such method",
            got=name,
            allowed=", ".join(difference.name for difference in self.differences),
        )


@dataclass(frozen=True)
class Rules:
    """The options of one comparison.

    Attributes:
        level: The accepted chance of any wrong verdict.
        comparisons: The number of comparisons that share it.
        higher_is_better: Whether larger values are better.
        margin: For equivalence; None if none was stated.
        resolution: The smallest step of the metric; 0 if not known.
        paired: False to ignore that seeds are equal.
    """

    level: float
    comparisons: int
    higher_is_better: bool
    margin: float | None
    resolution: float
    paired: bool | None

    @property
    def alpha(self) -> float:
        """The error rate of one interval."""
        return self.level / self.comparisons


@dataclass(frozen=True)
class Decision:
    """What one interval says. The p-values and the verdict follow from it."""

    interval: tuple[float, float]
    interval_alone: tuple[float, float]
    p: float
    p_corrected: float
    verdict: str

    @property
    def decided(self) -> bool:
        """Whether zero lies outside the interval."""
        return self.verdict in (BETTER, WORSE)


def compare_runs(
    results: Results,
    baseline: str,
    *,
    level: float = 0.05,
    higher_is_better: bool = True,
    margin: float | None = None,
    comparisons: int | None = None,
    resolution: float = 0.0,
    paired: bool | None = None,
    correct: Mapping[str, Mapping[Any, Any]] | None = None,
) -> Comparison:
    """Compare every method's runs with the baseline's.

    Student's t gives one interval per method, at level ``1 - level / comparisons`` (Bonferroni).
    Its two ends decide. See Note [One interval].

    Args:
        results: Method to {seed: value}. NaN or infinity is a run that diverged; see Note
            [Diverged runs]. None and a missing seed are missing runs.
        baseline: The method that all others are compared with.
        level: The accepted chance of any wrong verdict.
        higher_is_better: Whether a larger value is the better one.
        margin: Differences smaller than this count as equivalent. State it before the runs.
            Without it no verdict is ``"equivalent"``.
        comparisons: How many comparisons share the level; by default one per method.
        resolution: The smallest step of the metric, for example 1 / test examples. No standard
            deviation is taken to be smaller.
        paired: None to pair runs by their seeds where they overlap, True to use only pairs, False
            to pair none.
        correct: Method to {seed: right or wrong by test example}, to judge whether the verdict
            also holds for new examples.

    Returns:
        One :class:`Difference` per method, in the order of ``results``.

    Raises:
        ArgumentError: If the baseline has no results or an argument is out of range.
    """
    values = check_results(results, baseline, "compare_runs")
    rules = make_rules(
        len(values) - 1,
        level,
        higher_is_better,
        margin,
        comparisons,
        resolution,
        paired,
    )
    worst = _worst(values.values(), rules)
    base = values[baseline]
    examples = _per_example(correct, "compare_runs")
    differences = []
    for name, ours in values.items():
        if name == baseline:
            continue
        estimates = estimates_of(ours, base, rules, worst)
        decision = decide(estimates, rules)
        new = for_new_examples(
            examples.get(name, {}),
            examples.get(baseline, {}),
            ours,
            base,
            rules.alpha,
            decision.verdict if decision.decided else UNDECIDED,
            rules.higher_is_better,
        )
        differences.append(describe(name, ours, base, estimates[0], decision, rules, new=new))
    return summarise(baseline, base, rules, differences)


def check_results(results: Any, baseline: Any, where: str) -> dict[str, dict[Any, float]]:
    """Return the results as plain numbers, or raise.

    Args:
        results: Method to {seed: value}.
        baseline: A method of them.
        where: The function, for messages.
    """
    if not isinstance(results, Mapping):
        raise ArgumentError(
            f"{where}: results must be a mapping from methods to values by seed",
            got=type(results).__name__,
            fix='for example {"relu": {0: 0.91, 1: 0.92}, "gelu": {0: 0.93, 1: 0.92}}',
        )
    if not isinstance(baseline, Hashable) or baseline not in results:
        raise ArgumentError(
            f"{where}: the baseline has no results",
            got=baseline,
            allowed=", ".join(map(str, results)),
        )
    return {name: check_seeds(values, f"{where}: {name}") for name, values in results.items()}


def check_seeds(values: Any, where: str) -> dict[Any, float]:
    """Return values by seed as floats, without the missing ones; raise if one is not a number."""
    if not isinstance(values, Mapping):
        raise ArgumentError(f"{where}: values by seed must be a mapping", got=type(values).__name__)
    numbers: dict[Any, float] = {}
    for seed, value in values.items():
        if value is None:
            continue
        if not is_number(value):
            raise ArgumentError(f"{where}, seed {seed}: the value is not a number", got=value)
        number = _as_float(value)
        numbers[seed] = number if abs(number) <= LARGEST else math.nan
    return numbers


def make_rules(
    methods: int,
    level: float,
    higher_is_better: bool,
    margin: float | None,
    comparisons: int | None,
    resolution: float,
    paired: bool | None,
) -> Rules:
    """Check the options of a comparison.

    Args:
        methods: The methods that are compared with the baseline.
        level: The accepted chance of any wrong verdict.
        higher_is_better: Whether larger values are better.
        margin: For equivalence.
        comparisons: How many comparisons share the level; one per method by default.
        resolution: The smallest step of the metric.
        paired: Whether runs are paired by seed.
    """
    check_number("compare", "level", level, above=0, below=1)
    check_number("compare", "resolution", resolution, least=0)
    if margin is not None:
        check_number("compare", "margin", margin, above=0)
    if comparisons is None:
        comparisons = max(1, methods)
    check_count("compare", "comparisons", comparisons, least=1)
    check_flag("compare", "higher_is_better", higher_is_better)
    if paired is not None:
        check_flag("compare", "paired", paired)
    return Rules(
        level=float(level),
        comparisons=int(comparisons),
        higher_is_better=higher_is_better,
        margin=None if margin is None else float(margin),
        resolution=float(resolution),
        paired=paired,
    )


def estimates_of(ours: Seeds, theirs: Seeds, rules: Rules, worst: float) -> list[Estimate]:
    """Return the estimates that a verdict must hold in; the first is of the runs that are left.

    Args:
        ours: Values of the method by seed; NaN for a diverged run.
        theirs: Values of the baseline.
        rules: Of the comparison.
        worst: What a diverged run counts as.

    Returns:
        One estimate, and a second with diverged runs at the worst value if there are any.
    """
    options = {"resolution": rules.resolution, "paired": rules.paired}
    estimates = [estimate(_finished(ours), _finished(theirs), **options)]
    if _diverged(ours) or _diverged(theirs):
        filled = [
            {seed: value if math.isfinite(value) else worst for seed, value in runs.items()}
            for runs in (ours, theirs)
        ]
        estimates.append(estimate(*filled, **options))
    return estimates


def decide(estimates: Sequence[Estimate], rules: Rules) -> Decision:
    """Return the interval that spans the estimates, and what follows from it.

    Args:
        estimates: A verdict must hold in all of them.
        rules: Of the comparison.
    """
    low, high = _hull(estimates, rules.alpha)
    alone = _hull(estimates, rules.level)
    if not (math.isfinite(low) and math.isfinite(high)):
        missing = (math.nan, math.nan)
        return Decision(missing, alone, math.nan, 1.0, UNDECIDED)
    above = max(map(Estimate.p_above, estimates))
    below = max(map(Estimate.p_below, estimates))
    p = min(1.0, 2 * min(above, below))
    outside = low > 0 or high < 0
    p_corrected = min(1.0, rules.comparisons * p)
    # The ends decide. Without this, rounding could let the p-value contradict them.
    if outside:
        p_corrected = min(p_corrected, rules.level)
    elif p_corrected <= rules.level:
        p_corrected = math.nextafter(rules.level, 1.0)
    verdict = UNDECIDED
    if outside:
        verdict = BETTER if (low > 0) == rules.higher_is_better else WORSE
    elif rules.margin is not None and -rules.margin < low and high < rules.margin:
        verdict = EQUIVALENT
    return Decision((low, high), alone, p, p_corrected, verdict)


def describe(
    name: str,
    ours: Seeds,
    theirs: Seeds,
    main: Estimate,
    decision: Decision,
    rules: Rules,
    *,
    new: NewExamples | None = None,
) -> Difference:
    """Return the row of one method.

    Args:
        name: The method.
        ours: Its values by seed; NaN for a diverged run.
        theirs: The baseline's.
        main: The estimate of the runs that did not diverge.
        decision: What the interval says.
        rules: Of the comparison.
        new: What holds for new examples.
    """
    finished = list(_finished(ours).values())
    p_exact = permutation_p(main.pairs) if main.pairs else math.nan
    smallest = detectable(main, rules.alpha)
    needed = None
    if decision.verdict == UNDECIDED and smallest is not None and main.spread > 0:
        effect = rules.margin if rules.margin is not None else smallest / 2
        options = {"level": rules.level, "comparisons": rules.comparisons}
        needed = plan_seeds(effect, main.spread, main.n, **options)
    return Difference(
        name=name,
        n=main.n,
        mean=mean(finished),
        spread=spread_of(finished) if len(finished) > 1 else math.nan,
        difference=main.difference,
        interval=decision.interval,
        confidence=1 - rules.alpha,
        interval_alone=decision.interval_alone,
        p=decision.p,
        p_corrected=decision.p_corrected,
        p_exact=p_exact,
        verdict=decision.verdict,
        reason=_reason(ours, theirs, main, decision, rules, p_exact),
        detectable=smallest,
        seeds_needed=needed,
        method=main.method,
        diverged=_diverged(ours),
        new_examples=new,
        note=_note(ours, theirs, main),
    )


def summarise(
    baseline: str,
    base: Seeds,
    rules: Rules,
    differences: Sequence[Difference],
) -> Comparison:
    """Return the comparison of all methods with the baseline."""
    finished = list(_finished(base).values())
    return Comparison(
        baseline=baseline,
        baseline_mean=mean(finished),
        baseline_spread=spread_of(finished) if len(finished) > 1 else math.nan,
        n=len(finished),
        level=rules.level,
        comparisons=rules.comparisons,
        margin=rules.margin,
        higher_is_better=rules.higher_is_better,
        differences=tuple(differences),
        baseline_diverged=_diverged(base),
    )


def worst_value(groups: Sequence[Seeds], rules: Rules) -> float:
    """Return the worst finite value of all runs; NaN if there is none."""
    return _worst(groups, rules)


def _worst(groups: Any, rules: Rules) -> float:
    """Return the worst finite value of all runs; NaN if there is none."""
    values = [value for runs in groups for value in _finished(runs).values()]
    if not values:
        return math.nan
    return min(values) if rules.higher_is_better else max(values)


def _hull(estimates: Sequence[Estimate], alpha: float) -> tuple[float, float]:
    """Return the smallest lower end and the largest upper end; NaN if one is not known."""
    lows = [one.bounds(alpha)[0] for one in estimates]
    highs = [one.bounds(alpha)[1] for one in estimates]
    if any(map(math.isnan, lows)) or any(map(math.isnan, highs)):
        return math.nan, math.nan
    return min(lows), max(highs)


def _finished(runs: Seeds) -> dict[Any, float]:
    """Return the runs that did not diverge."""
    return {seed: value for seed, value in runs.items() if math.isfinite(value)}


def _diverged(runs: Seeds) -> int:
    """Return how many runs diverged."""
    return sum(not math.isfinite(value) for value in runs.values())


def _reason(
    ours: Seeds,
    theirs: Seeds,
    main: Estimate,
    decision: Decision,
    rules: Rules,
    p_exact: float,
) -> str:
    """Say why a difference is undecided, or that the exact test disagrees."""
    for runs in (ours, theirs):
        if runs and _diverged(runs) == len(runs):
            return ALL_DIVERGED
    if not math.isfinite(decision.interval[0]):
        few = main.n < FEWEST or (not main.pairs and len(_finished(theirs)) < FEWEST)
        return TOO_FEW if few else ALL_EQUAL
    low, high = main.bounds(rules.alpha)
    if not decision.decided and (low > 0 or high < 0):
        return ON_DIVERGED
    reachable = smallest_flip_p(len(main.pairs)) * rules.comparisons <= rules.level
    if math.isfinite(p_exact) and reachable and len(main.pairs) == main.n:
        if (p_exact * rules.comparisons <= rules.level) != (low > 0 or high < 0):
            return ON_NORMALITY
    return ""


def _note(ours: Seeds, theirs: Seeds, main: Estimate) -> str:
    """Warn where Welch's test can be wrong: unequal spreads in groups of unequal size."""
    first = list(_finished(ours).values())
    second = list(_finished(theirs).values())
    if main.pairs or min(len(first), len(second)) < FEWEST:
        return ""
    small, large = sorted((spread_of(first), spread_of(second)))
    few, many = sorted((len(first), len(second)))
    if large > 2 * small and many > 2 * few:
        return UNEQUAL_GROUPS
    return ""


def _as_float(value: Any) -> float:
    """Return a float; infinity for a whole number that is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _per_example(correct: Any, where: str) -> Mapping[str, Mapping[Any, Any]]:
    """Return right and wrong by method, checked to be mappings."""
    if correct is None:
        return {}
    if not isinstance(correct, Mapping) or not all(
        isinstance(by_seed, Mapping) for by_seed in correct.values()
    ):
        raise ArgumentError(
            f"{where}: correct must map methods to {{seed: right or wrong by example}}",
            got=type(correct).__name__,
        )
    return correct
