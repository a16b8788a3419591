"""Numbers and lists in the sentences of a diagnosis."""

from collections.abc import Iterable, Sequence


def signed(value: float) -> str:
    """Two digits after the point, with the sign: a correlation."""
    return f"{value:+.2f}".replace("-", "\N{MINUS SIGN}")


def share(value: float) -> str:
    """A share in percent, as exact as it is worth: ``3.1 %``, ``42 %``."""
    percent = 100 * value
    return f"{percent:.1f} %" if 0.05 <= abs(percent) < 10 else f"{percent:.0f} %"


def chance(p: float) -> str:
    """A p-value: ``p = 0.03``, ``p < 1e-6``."""
    return "p < 1e-6" if p < 1e-6 else f"p = {p:.2g}"


def few(names: Sequence[str], most: int = 3) -> str:
    """``a, b and c``, or ``a, b and 4 more``."""
    names = list(names)
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return (
        names[0]
        if len(names) == 1
        else f"{', '.join(names[:-1])} and {names[-1]}"
        if names
        else "none"
    )


def plural(count: int, word: str) -> str:
    """``1 layer``, ``3 layers``."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def called(name: str) -> str:
    """A layer in a sentence: its name, with a word before one that begins with a digit."""
    return "the model itself" if not name else f"layer {name}" if name[0].isdigit() else name


def all_called(names: Iterable[str]) -> str:
    """Several layers in a sentence."""
    return few([called(name) for name in names])
