"""The verdict on one unit in words: what was shown, or what would have been found."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gatewise.stats import Difference
    from gatewise.studies.older import StudyResult

FOREIGN_NOUN = "examples"
NOUN = "images"
TEXT_NOUN = "texts"
TEXT = "text"  # the data set


def verdict_words(result: "StudyResult", difference: "Difference") -> str:
    """Return the verdict with its reason or its margin.

    Args:
        result: Of the study.
        difference: One unit against the baseline.
    """
    margin = result.margin
    verdict = difference.verdict
    if verdict == "equivalent" and margin is not None:
        return f"equivalent within {result.display.size(margin)}"
    if verdict in ("better", "worse") and within_margin(result, difference):
        verdict = f"{verdict}, by less than the margin"
    return f"{verdict}: {difference.reason}" if difference.reason else verdict


def difference_words(result: "StudyResult", difference: "Difference") -> str:
    """Return one unit against the baseline in a sentence or two.

    Args:
        result: Of the study.
        difference: The unit against the baseline.
    """
    display = result.display
    ends = display.interval(difference.interval)
    size = f"{display.difference(difference.difference)} {ends}".strip()
    words = f"{difference.name} {size}{display.unit}: {verdict_words(result, difference)}"
    if undecided_by_noise(difference):
        words += f"; {result.display.size(difference.detectable or math.nan)} would have been found"
        seeds = seeds_words(difference)
        half = "half of that" if result.margin is None else "the margin"
        words += f"; seeds for {half}: {seeds}" if seeds else ""
    elif difference.verdict in ("better", "worse"):
        return f"{words}. {new_examples_words(result, difference)}"
    return f"{words}."


def undecided_by_noise(difference: "Difference") -> bool:
    """Return whether more seeds would decide, and what would have been found is known.

    More seeds do not help where the verdict depends on the learning rate or on diverged runs.

    Args:
        difference: One unit against the baseline.
    """
    if difference.verdict != "undecided" or difference.reason:
        return False
    return difference.detectable is not None and math.isfinite(difference.detectable)


def seeds_words(difference: "Difference") -> str:
    """Return the seeds that would decide: ``17 (25 to be safe)``; empty if not known."""
    if difference.seeds_needed is None:
        return ""
    expected, safe = difference.seeds_needed
    return f"{expected:,} ({safe:,} to be safe)"


def new_examples_words(result: "StudyResult", difference: "Difference") -> str:
    """Return whether the verdict also holds for test examples that were not used.

    Args:
        result: Of the study.
        difference: A unit that is better or worse than the baseline.
    """
    noun = example_noun(result)
    state = new_examples_state(difference)
    if state == "also":
        return f"This also holds for new {noun}."
    if state == "undecided":
        return f"This holds for these test {noun}; for new {noun} it is undecided."
    return f"Whether this holds for new {noun} is not known."


def new_examples_state(difference: "Difference") -> str:
    """Return ``also``, ``undecided`` or ``not known``; empty for a unit that is undecided."""
    if difference.verdict not in ("better", "worse"):
        return ""
    if difference.new_examples is None:
        return "not known"
    return "also" if difference.new_examples.verdict == difference.verdict else "undecided"


def example_noun(result: "StudyResult") -> str:
    """Return what the test set is made of, as far as it is known."""
    if result.content.get("origin"):
        return FOREIGN_NOUN
    for cell in result.cells:
        config = cell["config"]  # of a file that may have been edited
        if not isinstance(config, Mapping) or config.get("data") != TEXT:
            return NOUN
    return TEXT_NOUN


def within_margin(result: "StudyResult", difference: "Difference") -> bool:
    """Return whether a whole interval is within the margin that was stated.

    Args:
        result: Of the study.
        difference: One unit against the baseline.
    """
    margin = result.margin
    return margin is not None and all(abs(end) < margin for end in difference.interval)
