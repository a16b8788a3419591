"""Two networks on the same seeds.

Which has the lower number, and whether that is more than their spread.
"""

from collections.abc import Mapping, Sequence

from gatewise.papers.common import Numbers, deviation, mean


def lower(ours: Numbers, theirs: Numbers) -> tuple[bool, str]:
    """Whether ``ours`` is lower than ``theirs`` in the mean over seeds, and the numbers in words."""
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
    if not pairs:
        return False, "no seed came to an end with both"
    gaps = [a - b for a, b in pairs]
    gap, spread = mean(gaps), deviation(gaps)
    words = (
        f"{mean([a for a, _ in pairs]):.3g} against {mean([b for _, b in pairs]):.3g}: "
        f"{'lower' if gap < 0 else 'not lower'}, by {gap:+.2g} ± {spread:.2g}, in {_count(gaps)} seeds"
    )
    return gap < 0, words + (" (less than its spread)" if abs(gap) < spread else "")


def all_lower(pairs: Mapping[str, tuple[Numbers, Numbers]]) -> tuple[bool, str]:
    """Whether every first is lower than its second; the numbers of all of them."""
    found = {name: lower(*pair) for name, pair in pairs.items()}
    return all(holds for holds, _ in found.values()), "; ".join(
        f"{name} {words}" for name, (_, words) in found.items()
    )


def _count(gaps: Sequence[float]) -> str:
    return f"{sum(gap < 0 for gap in gaps)} of {len(gaps)}"
