"""Numbers and names in the sentences and tables of a diagnosis."""

from collections.abc import Iterable, Sequence


def signed(value: float) -> str:
    """Return a correlation with its sign and two digits: ``−0.80``."""
    return f"{value:+.2f}".replace("-", "\N{MINUS SIGN}")


def percentage(value: float) -> str:
    """Return a share in percent, with one digit below 10 %: ``3.1 %``, ``42 %``."""
    percent = 100 * value
    return f"{percent:.1f} %" if 0.05 <= abs(percent) < 10 else f"{percent:.0f} %"


def p_value(p: float) -> str:
    """Return a p-value: ``p = 0.03``, ``p < 1e-6``."""
    return "p < 1e-6" if p < 1e-6 else f"p = {p:.2g}"


def joined(names: Sequence[str], most: int = 3) -> str:
    """Return names as a list in words: ``a, b and c``, or ``a, b and 4 more``.

    Args:
        names: The names.
        most: The largest number of items in the list, "4 more" included.
    """
    items = list(names)
    if not items:
        return "none"
    if len(items) > most:
        items = [*items[: most - 1], f"{len(items) - most + 1} more"]
    if len(items) == 1:
        return items[0]
    return f"{', '.join(items[:-1])} and {items[-1]}"


def rounded(rows: Sequence[Sequence[float]], digits: int) -> list[list[float]]:
    """Round a table of numbers, which makes a page and its JSON several times smaller."""
    return [[round(value, digits) for value in row] for row in rows]


def plural(count: int, word: str) -> str:
    """Return a count with its noun: ``1 layer``, ``3 layers``."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def layer_name(name: str) -> str:
    """Return the name of a layer for a sentence, with a word before one that is a number."""
    if not name:
        return "the model itself"
    return f"layer {name}" if name[0].isdigit() else name


def layer_names(names: Iterable[str]) -> str:
    """Return the names of several layers for a sentence."""
    return joined([layer_name(name) for name in names])


def sentence_start(name: str) -> str:
    """Return the name of a layer for the start of a sentence. Names of modules keep their case."""
    return f"L{name[1:]}" if name.startswith("layer ") else name
