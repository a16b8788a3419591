"""Numbers and names in the sentences and tables of a diagnosis."""

from collections.abc import Iterable, Sequence

from gatewise.words import joined as joined
from gatewise.words import percentage as percentage
from gatewise.words import plural as plural
from gatewise.words import signed as signed


def p_value(p: float) -> str:
    """Return a p-value: ``p = 0.03``, ``p < 1e-6``."""
    return "p < 1e-6" if p < 1e-6 else f"p = {p:.2g}"


def rounded(rows: Sequence[Sequence[float]], digits: int) -> list[list[float]]:
    """Round a table of numbers, which makes a page and its JSON several times smaller."""
    return [[round(value, digits) for value in row] for row in rows]


def thinned(count: int, most: int) -> Sequence[int]:
    """Return at most ``most`` of the places 0 to ``count - 1``, evenly spaced, with both ends."""
    if count <= most:
        return range(count)
    return [round(place * (count - 1) / (most - 1)) for place in range(most)]


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
