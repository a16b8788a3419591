"""Judge the claims of a paper by the rules of `gatewise.stats`, and say what decided them.

Note [Verdicts]. A claim is supported, contradicted, undecided or not tested. What is measured once
per seed is judged by intervals of paired differences. Counts and closed forms have no seeds: they
are equal as printed, or contradicted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gatewise.stats import finite, mean, standard_deviation
from gatewise_papers.common.judgements import (
    ClaimEvidence,
    ClaimResult,
    Judgement,
    judge_better,
    judge_comparable,
    judge_everywhere,
)
from gatewise_papers.common.records import Claim, Numbers

Show = Callable[[float], str]
Pairs = Mapping[str, tuple[Numbers, Numbers]]
SHOWN = 6  # differences that the text of a claim names; the record holds all of them


def percent(value: float) -> str:
    """Return a share as a percentage with two digits."""
    return f"{100 * value:.2f}"


def number(value: float) -> str:
    """Return a number with three digits."""
    return f"{value:.3g}"


def finite_mean(values: Numbers) -> float:
    """Return the mean of the values that are finite; NaN if none is."""
    return mean(finite(values))


def with_spread(values: Numbers, show: Show = percent) -> str:
    """Return mean and standard deviation of the finite values in words.

    Args:
        values: one per seed.
        show: formats a number.
    """
    return f"{show(finite_mean(values))} ± {show(standard_deviation(finite(values)))}"


def counted(published: str, holds: bool, evidence: str, *, exact: bool = True) -> Claim:
    """Return a claim about counts or closed forms, which needs no statistics.

    Args:
        published: what the paper says.
        holds: whether it is so.
        evidence: the numbers.
        exact: False if the numbers are measured.
    """
    verdict = Judgement.SUPPORTED if holds else Judgement.CONTRADICTED
    return Claim(published, verdict, evidence, exact=exact)


def judged_by_p(published: str, is_as_claimed: bool, p: float, sure: float, evidence: str) -> Claim:
    """Return a claim that a significance test decides.

    Args:
        published: what the paper says.
        is_as_claimed: whether the effect has the direction of the claim.
        p: of the test.
        sure: the p below which it counts.
        evidence: the numbers.
    """
    if p >= sure:
        return Claim(published, Judgement.UNDECIDED, evidence)
    return counted(published, is_as_claimed, evidence, exact=False)


def not_tested(published: str, reason: str, evidence: str = "", *, exact: bool = False) -> Claim:
    """Return a claim that could not be tested.

    Args:
        published: what the paper says.
        reason: why it could not be tested.
        evidence: the numbers that there are.
        exact: whether it is about counts or closed forms.
    """
    return Claim(published, Judgement.NOT_TESTED, evidence, reason=reason, exact=exact)


def judged(published: str, result: ClaimResult, *, before: str = "", show: Show = number) -> Claim:
    """Return a claim with the verdict of `gatewise.stats` and its numbers in words.

    Args:
        published: what the paper says.
        result: the verdict.
        before: words before the differences.
        show: formats a number.
    """
    shown = [_in_words(one, show) for one in _least_as_claimed(result.evidence)]
    more = len(result.evidence) - len(shown)
    if more:
        shown.append(f"and {more} more")
    texts = [text for text in (before, "; ".join(shown)) if text]
    return Claim(
        published,
        result.judgement,
        ": ".join(texts),
        compared=result.evidence,
        detectable=result.detectable,
        reason=result.reason,
    )


def judge(
    claim: str,
    values: Mapping[str, Numbers],
    better: Sequence[str],
    others: Sequence[str],
    *,
    lower: bool = False,
    show: Show = percent,
) -> Claim:
    """Judge that each of ``better`` is better than every one of ``others``.

    Args:
        claim: what the paper says.
        values: one value per seed, by name.
        better: the names that the paper calls better.
        others: the names they are compared with.
        lower: whether a lower value is better.
        show: formats a number.
    """
    pairs = {}
    for name in better:
        for other in others:
            pairs[f"{name} and {other}"] = (values[name], values[other])
    texts = [f"{name} {with_spread(values[name], show)}" for name in (*better, *others)]
    return judged(claim, all_better(pairs, lower=lower), before=", ".join(texts), show=show)


def all_better(pairs: Pairs, *, lower: bool = False) -> ClaimResult:
    """Judge that the first of every pair is better, all of them together.

    Args:
        pairs: values by seed of both sides, by name.
        lower: whether a lower value is better.
    """
    results = []
    for name, (ours, theirs) in pairs.items():
        result = judge_better(
            by_seed(ours), by_seed(theirs), among=len(pairs), higher_is_better=not lower
        )
        results.append(_named(name, result))
    return judge_everywhere(results)


def all_lower(published: str, pairs: Pairs) -> Claim:
    """Return the claim that the first of every pair is lower."""
    return judged(published, all_better(pairs, lower=True))


def all_comparable(pairs: Pairs, margin: float) -> ClaimResult:
    """Judge that no pair differs by more than ``margin``, all of them together.

    Args:
        pairs: values by seed of both sides, by name.
        margin: the largest difference that counts as comparable.
    """
    results = []
    for name, (ours, theirs) in pairs.items():
        result = judge_comparable(by_seed(ours), by_seed(theirs), margin=margin, among=len(pairs))
        results.append(_named(name, result))
    return judge_everywhere(results)


def by_seed(values: Numbers) -> dict[int, float]:
    """Return the values by the place of their seed; a run that diverged is NaN."""
    return {seed: float("nan") if v is None else float(v) for seed, v in enumerate(values)}


def _named(name: str, result: ClaimResult) -> ClaimResult:
    """Return the result with the name of its pair."""
    name = name.rstrip(":")
    reason = f"{name}: {result.reason}" if result.reason else ""
    evidence = tuple(replace(one, name=name) for one in result.evidence)
    return replace(result, evidence=evidence, reason=reason)


def _least_as_claimed(evidence: Sequence[ClaimEvidence]) -> list[ClaimEvidence]:
    """Return the differences to show: all, or those that are least as claimed."""
    if len(evidence) <= SHOWN:
        return list(evidence)
    return sorted(evidence, key=lambda one: one.difference)[:SHOWN]


def _in_words(one: ClaimEvidence, show: Show) -> str:
    """Say one difference, positive as claimed, with its interval and the number of pairs."""
    low, high = one.interval
    return (
        f"{one.name}: {_signed(one.difference, show)} "
        f"[{_signed(low, show)}, {_signed(high, show)}], n = {one.n}"
    )


def _signed(value: float, show: Show) -> str:
    """Return a number with its sign."""
    return f"+{show(value)}" if value > 0 else show(value)
