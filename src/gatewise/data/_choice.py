"""What may be chosen of a set: how many examples, which classes."""

from gatewise.errors import ArgumentError


def check_count(name: str, value: object, *, most: int) -> int:
    """``value`` if it is a number of examples that can be had."""
    if type(value) is not int or not 1 <= value <= most:
        raise ArgumentError(f"{name} is how many examples are wanted", got=value, allowed=f"1 .. {most}")
    return value
