"""Is one network better than others, over seeds? What a claim says, with the numbers that decide it."""

from collections.abc import Callable, Mapping, Sequence

from gatewise.papers.common.records import Claim, Numbers
from gatewise.papers.common.statistics import deviation, finite, mean

Show = Callable[[float], str]


def percent(value: float) -> str:
    """A share as a percentage, two digits."""
    return f"{100 * value:.2f}"


def number(value: float) -> str:
    """Three digits."""
    return f"{value:.3g}"


def judge(
    said: str,
    values: Mapping[str, Numbers],
    better: Sequence[str],
    others: Sequence[str],
    *,
    lower: bool = False,
    show: Show = percent,
) -> Claim:
    """Whether the mean of each of ``better`` is above (``lower``.

    Below) that of every one of ``others``.

    ``values`` has one value for each seed. The evidence names the best of the others, the mean of
    the differences seed by seed, and whether it is smaller than their spread, which is to say that
    nothing was shown.
    """
    sign = -1 if lower else 1
    best = max(others, key=lambda name: sign * _mean(values[name]))
    texts = [
        f"{best}{' is the best of the others:' if len(others) > 1 else ''} {_words(values[best], show)}"
    ]
    texts += [
        f"{name} {_words(values[name], show)}, {_paired(values[name], values[best], show)}"
        for name in better
    ]
    holds = all(sign * _mean(values[name]) > sign * _mean(values[best]) for name in better)
    return Claim(said, holds, "; ".join(texts))


def _mean(values: Numbers) -> float:
    return mean(finite(values))


def _words(values: Numbers, show: Show) -> str:
    return f"{show(_mean(values))} ± {show(deviation(finite(values)))}"


def _paired(ours: Numbers, theirs: Numbers, show: Show) -> str:
    gaps = [a - b for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
    away, spread = mean(gaps), deviation(gaps)
    text = f"by seed {'+' if away > 0 else ''}{show(away)} ± {show(spread)}"
    if len(gaps) < 2:
        return f"{text} (one pair shows nothing)"
    return f"{text}, less than the spread" if abs(away) < spread else text
