"""Decide whether a claim of a paper holds over seeds, and give the numbers that decide it."""

from collections.abc import Callable, Mapping, Sequence

from gatewise.papers.common.records import Claim, Numbers
from gatewise.stats import finite, mean, paired_difference, standard_deviation

Show = Callable[[float], str]


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


def judge(
    claim: str,
    values: Mapping[str, Numbers],
    better: Sequence[str],
    others: Sequence[str],
    *,
    lower: bool = False,
    show: Show = percent,
) -> Claim:
    """Decide whether each of ``better`` has a better mean than every one of ``others``.

    Args:
        claim: what the paper says.
        values: one value per seed, by name.
        better: the names that the paper calls better.
        others: the names they are compared with.
        lower: whether a lower value is better.
        show: formats a number.

    Returns:
        The claim. Its evidence names the best of the others and the mean difference seed by seed,
        and says if that is smaller than its standard deviation: then nothing was shown.
    """
    sign = -1 if lower else 1

    def score(name: str) -> float:
        """Return the mean, signed so that larger is better."""
        return sign * finite_mean(values[name])

    best = max(others, key=score)
    several = " is the best of the others:" if len(others) > 1 else ""
    texts = [f"{best}{several} {with_spread(values[best], show)}"]
    for name in better:
        gap = _difference_in_words(values[name], values[best], show)
        texts.append(f"{name} {with_spread(values[name], show)}, {gap}")
    holds = all(score(name) > score(best) for name in better)
    return Claim(claim, holds, "; ".join(texts))


def lower_by_seed(ours: Numbers, theirs: Numbers) -> tuple[bool, str]:
    """Return whether ``ours`` has the lower mean over seeds, and the numbers in words."""
    gap = paired_difference(ours, theirs)
    if not gap.n:
        return False, "no seed came to an end with both"
    word = "lower" if gap.difference < 0 else "not lower"
    text = (
        f"{gap.ours:.3g} against {gap.theirs:.3g}: {word}, "
        f"by {gap.difference:+.2g} ± {gap.spread:.2g}, in {gap.below} of {gap.n} seeds"
    )
    if gap.within_spread:
        text += " (less than its spread)"
    return gap.difference < 0, text


def all_lower(pairs: Mapping[str, tuple[Numbers, Numbers]]) -> tuple[bool, str]:
    """Return whether every first list has the lower mean, and the numbers of all in words."""
    holds = True
    texts = []
    for name, (ours, theirs) in pairs.items():
        is_lower, text = lower_by_seed(ours, theirs)
        holds = holds and is_lower
        texts.append(f"{name} {text}")
    return holds, "; ".join(texts)


def _difference_in_words(ours: Numbers, theirs: Numbers, show: Show) -> str:
    """Say how far two lists differ seed by seed, and whether that exceeds the spread."""
    gap = paired_difference(ours, theirs)
    sign = "+" if gap.difference > 0 else ""
    text = f"by seed {sign}{show(gap.difference)} ± {show(gap.spread)}"
    if gap.n < 2:
        return f"{text} (one pair shows nothing)"
    return f"{text}, less than the spread" if gap.within_spread else text
