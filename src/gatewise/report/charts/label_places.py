"""Where the name of each point can stand without lying on another name or on a point."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

# Note [How wide the field is]: names are in pixels, points in parts of a field whose width only the
# browser knows. Places are chosen for a narrow one; in a wider one the same places lie further
# apart.
WIDE, HIGH = 330.0, 260.0
LETTER, LINE = 6.7, 14.0  # pixels of a letter and a line of the small text
GAP = 8.0
FAR = 12.0
LONGEST = 20  # letters of a name; the rest is in its tooltip

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Label:
    """A name at a point, both in parts of the field, moved by pixels and set from its start, middle or end."""

    text: str
    x: float
    y: float
    right: float
    down: float
    anchor: str
    full: str = ""  # the name before it was cut

    @property
    def is_far(self) -> bool:
        """Whether the name stands so far off that a line must lead to it."""
        return abs(self.down - 4) > FAR and self.anchor != "middle"


def place_labels(
    named: Sequence[tuple[str, float, float]], points: Sequence[tuple[float, float]]
) -> tuple[Label, ...]:
    """A place for each name.

    Beside its point, above or below, further off where those are taken.
    """
    taken: list[Box] = [(x * WIDE - 4, y * HIGH - 4, x * WIDE + 4, y * HIGH + 4) for x, y in points]
    placed = []
    for full, x, y in sorted(named, key=lambda one: (one[2], one[1])):
        text = full if len(full) <= LONGEST else f"{full[: LONGEST - 1]}…"
        best = min(_places(text, x, y), key=lambda label: _cost(_box(label), taken))
        taken.append(_box(best))
        placed.append(replace(best, full=full))
    return tuple(placed)


def _places(text: str, x: float, y: float) -> Iterator[Label]:
    """Places from the nearest to the furthest; of those that cost the same the first is taken."""
    for step in range(7):
        for down in (4.0 + 9 * step, 4.0 - 9 * step):
            yield Label(text, x, y, GAP + 4 * step, down, "start")
            yield Label(text, x, y, -GAP - 4 * step, down, "end")
        if not step:
            yield Label(text, x, y, 0.0, -GAP, "middle")
            yield Label(text, x, y, 0.0, GAP + 10, "middle")


def _box(label: Label) -> Box:
    width = LETTER * len(label.text)
    left = (
        label.x * WIDE
        + label.right
        - {"start": 0.0, "middle": width / 2, "end": width}[label.anchor]
    )
    bottom = label.y * HIGH + label.down + 3
    return left, bottom - LINE, left + width, bottom


def _cost(box: Box, taken: Sequence[Box]) -> float:
    """Area lying on others, and much for what leaves the field."""
    covered = sum(
        max(0.0, min(box[2], b[2]) - max(box[0], b[0]))
        * max(0.0, min(box[3], b[3]) - max(box[1], b[1]))
        for b in taken
    )
    outside = (
        max(0.0, -box[0]) + max(0.0, box[2] - WIDE) + max(0.0, -box[1]) + max(0.0, box[3] - HIGH)
    )
    return covered + 20 * outside
