"""How much of a large study is drawn. The page says what was left out."""

from collections.abc import Sequence
from typing import TypeVar

MOST_BLOCKS = 12  # blocks with charts
MOST_UNITS = 40  # rows of a forest plot
MOST_PANELS = 16  # small charts side by side
MOST_DOTS = 60  # single seeds of a row
MOST_POINTS = 200  # epochs of a learning curve
MOST_ROWS = 1000  # rows of a table
MOST_TABLES = 200  # tables of one kind

Item = TypeVar("Item")


def spread_out(items: Sequence[Item], most: int) -> list[Item]:
    """Return at most ``most`` items, evenly spread from the first to the last.

    Args:
        items: In order.
        most: The largest number to keep, 2 or more.
    """
    if len(items) <= most:
        return list(items)
    last = len(items) - 1
    return [items[round(place * last / (most - 1))] for place in range(most)]


def both_ends(items: Sequence[Item], most: int) -> list[Item]:
    """Return at most ``most`` items: the first half and the last half of them.

    Args:
        items: In order, for example the best first.
        most: The largest number to keep.
    """
    if len(items) <= most:
        return list(items)
    first = most - most // 2
    return [*items[:first], *items[len(items) - most // 2 :]]


def shown_words(shown: int, total: int, what: str) -> str:
    """Return a sentence on what was left out; empty if nothing was.

    Args:
        shown: How many are shown.
        total: How many there are.
        what: What they are, in the plural.
    """
    return f" {shown:,} of {total:,} {what} are shown." if shown < total else ""
