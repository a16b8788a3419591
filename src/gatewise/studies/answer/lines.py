"""Lines of text whose parts say what they are, so that every outlet can show them its own way."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Part:
    """Some words of a line.

    Args:
        text: The words.
        kind: ``name`` for what the line is about, ``warning`` for what limits the answer, or
            nothing.
        interval: The interval of the difference that the words tell of. Its ends decide the
            colour.
    """

    text: str
    kind: Literal["", "name", "warning"] = ""
    interval: tuple[float, float] | None = None


Line = Sequence[Part]


def named(name: str, words: str, kind: Literal["name", "warning"] = "name") -> Line:
    """Return a line that begins with a name and a colon."""
    return (Part(f"{name}: ", kind), Part(words))


def plain_text(line: Line) -> str:
    """Return a line as text."""
    return "".join(part.text for part in line).strip()
