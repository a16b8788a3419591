"""Places for the names of points, so that no name covers another name or a point."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

# Note [How wide the field is]: names are in pixels, points in fractions of a field whose width only
# the browser knows. Places are chosen for a narrow field; in a wider one they are further apart.
WIDE, HIGH = 330.0, 260.0
LETTER, LINE = 6.7, 14.0  # pixels of a letter and a line of the small text
GAP = 8.0
FAR = 12.0
LONGEST = 20  # letters of a name; the rest is in its tooltip

Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True)
class Label:
    """A name at a point.

    Args:
        text: The name, cut to the longest that is shown.
        x: The place of the point from the left, as a fraction of the field.
        y: The place of the point from the top, as a fraction of the field.
        right: Pixels from the point to the name.
        down: Pixels from the point down to the baseline of the name.
        anchor: Which end of the text is there: ``start``, ``middle`` or ``end``.
        full: The name before it was cut.
    """

    text: str
    x: float
    y: float
    right: float
    down: float
    anchor: str
    full: str = ""

    @property
    def is_far(self) -> bool:
        """Whether a line must connect the name with its point."""
        return abs(self.down - 4) > FAR and self.anchor != "middle"


def place_labels(
    names: Sequence[tuple[str, float, float]],
    points: Sequence[tuple[float, float]],
) -> tuple[Label, ...]:
    """Return a place for each name: next to its point, or further away if that is taken.

    Args:
        names: Each name with the place of its point, in fractions of the field from the top left.
        points: All points that a name must not cover.
    """
    taken: list[Box] = []
    for x, y in points:
        taken.append((x * WIDE - 4, y * HIGH - 4, x * WIDE + 4, y * HIGH + 4))
    placed = []
    for full, x, y in sorted(names, key=lambda name: (name[2], name[1])):
        text = full if len(full) <= LONGEST else f"{full[: LONGEST - 1]}…"
        best = min(_places(text, x, y), key=lambda label: _cost(_box(label), taken))
        taken.append(_box(best))
        placed.append(replace(best, full=full))
    return tuple(placed)


def _places(text: str, x: float, y: float) -> Iterator[Label]:
    """Yield places from the closest to the furthest; the first of the cheapest is taken."""
    for step in range(7):
        for down in (4.0 + 9 * step, 4.0 - 9 * step):
            yield Label(text, x, y, GAP + 4 * step, down, "start")
            yield Label(text, x, y, -GAP - 4 * step, down, "end")
        if not step:
            yield Label(text, x, y, 0.0, -GAP, "middle")
            yield Label(text, x, y, 0.0, GAP + 10, "middle")


def _box(label: Label) -> Box:
    """The area that a label covers, in pixels of the narrow field."""
    width = LETTER * len(label.text)
    before = {"start": 0.0, "middle": width / 2, "end": width}[label.anchor]
    left = label.x * WIDE + label.right - before
    bottom = label.y * HIGH + label.down + 3
    return left, bottom - LINE, left + width, bottom


def _cost(box: Box, taken: Sequence[Box]) -> float:
    """The area that covers others, plus a large penalty for leaving the field."""
    left, top, right, bottom = box
    covered = 0.0
    for other in taken:
        width = min(right, other[2]) - max(left, other[0])
        height = min(bottom, other[3]) - max(top, other[1])
        covered += max(0.0, width) * max(0.0, height)
    outside = max(0.0, -left) + max(0.0, right - WIDE) + max(0.0, -top) + max(0.0, bottom - HIGH)
    return covered + 20 * outside
