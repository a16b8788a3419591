"""Check the options that networks share."""

from collections.abc import Sequence

from gatewise.checks import check_count, check_number
from gatewise.errors import ArgumentError


def check_sizes(model: str, **sizes: int) -> None:
    """Raise an error unless each of ``sizes`` is an integer of at least one."""
    for name, value in sizes.items():
        check_count(model, name, value, least=1)


def check_widths(model: str, widths: Sequence[int]) -> tuple[int, ...]:
    """Return ``widths`` as a tuple; raise an error unless they are positive integers."""
    if isinstance(widths, str) or not isinstance(widths, Sequence) or not widths:
        raise ArgumentError(
            f"{model}: widths is not allowed",
            got=widths,
            allowed="one or more counts: (16, 32)",
        )
    return tuple(check_count(model, "widths", width, least=1) for width in widths)


def check_scale(model: str, scale: float, width: int, *, name: str = "scale") -> int:
    """Return ``width`` times ``scale``, rounded, at least one."""
    return max(1, round(width * check_number(model, name, scale, above=0)))
