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
ROUNDS = 3
LEADER_STEPS = 8
CROSSING = 10.0  # a line through a name is worse than a name on a dot

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
    dots = [_around(x * WIDE, y * HIGH, 4.0) for x, y in points]
    ordered = sorted(names, key=lambda name: (name[2], name[1]))
    placed: list[Label | None] = [None] * len(ordered)
    for _ in range(ROUNDS):  # the first names were placed when the others had no place yet
        for place, (full, x, y) in enumerate(ordered):
            text = full if len(full) <= LONGEST else f"{full[: LONGEST - 1]}…"
            others = [label for at, label in enumerate(placed) if label is not None and at != place]
            boxes = [_box(label) for label in others]
            lines = [box for label in others for box in _leader(label)]
            best = min(_places(text, x, y), key=lambda label: _cost(label, dots, boxes, lines))
            placed[place] = replace(best, full=full)
    return tuple(label for label in placed if label is not None)


def _around(x: float, y: float, half: float) -> Box:
    """A small square."""
    return x - half, y - half, x + half, y + half


def _leader(label: Label) -> list[Box]:
    """Squares along the line from a point to its name; none if the name is next to it."""
    if not label.is_far:
        return []
    x = label.x * WIDE
    y = label.y * HIGH
    squares = []
    for step in range(2, LEADER_STEPS + 1):  # the line begins at the dot
        share = step / LEADER_STEPS
        squares.append(_around(x + share * label.right, y + share * (label.down - 4), 1.0))
    return squares


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


def _cost(
    label: Label,
    dots: Sequence[Box],
    boxes: Sequence[Box],
    lines: Sequence[Box],
) -> float:
    """How bad a place is: what it covers, and how far it leaves the field.

    Args:
        label: A name at a place.
        dots: The points of the chart.
        boxes: The other names.
        lines: The lines of the other names.
    """
    box = _box(label)
    left, top, right, bottom = box
    covered = _overlap(box, dots) + _overlap(box, boxes) + CROSSING * _overlap(box, lines)
    for square in _leader(label):
        covered += CROSSING * _overlap(square, boxes)
    outside = max(0.0, -left) + max(0.0, right - WIDE) + max(0.0, -top) + max(0.0, bottom - HIGH)
    return covered + 20 * outside


def _overlap(box: Box, others: Sequence[Box]) -> float:
    """The area that a box shares with others."""
    left, top, right, bottom = box
    area = 0.0
    for other in others:
        width = min(right, other[2]) - max(left, other[0])
        height = min(bottom, other[3]) - max(top, other[1])
        area += max(0.0, width) * max(0.0, height)
    return area
