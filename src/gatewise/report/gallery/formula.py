"""LaTeX formulas as outlines that need no fonts. matplotlib's mathtext reads a part of LaTeX."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

SIZE = 20.0  # units of the drawing in 1 em
MARGIN = 1.5

# Note [What mathtext cannot read]: commands with another spelling that it does read. Commands that
# only change a size are left out.
_SPELLINGS = {
    r"\tfrac": r"\frac",
    r"\dfrac": r"\frac",
    r"\ge": r"\geq",
    r"\le": r"\leq",
    r"\ne": r"\neq",
    r"\to": r"\rightarrow",
    r"\lvert": "|",
    r"\rvert": "|",
    r"\lVert": r"\Vert ",
    r"\rVert": r"\Vert ",
    r"\dots": r"\ldots",
    r"\colon": ":",
    r"\bigl": "",
    r"\bigr": "",
    r"\Bigl": "",
    r"\Bigr": "",
    r"\big": "",
    r"\Big": "",
    r"\displaystyle": "",
    r"\textstyle": "",
    r"\operatorname*": r"\operatorname",
}
_CASES = re.compile(r"\\begin\{cases\}(.*?)\\end\{cases\}", re.DOTALL)
_COMMAND = re.compile(r"\\[A-Za-z]+\*?")


@dataclass(frozen=True)
class Drawing:
    """A formula as one filled outline.

    Args:
        width: The width in em.
        height: The height in em.
        depth: How far it extends below the baseline, in em.
        box: The ``viewBox`` of the drawing.
        path: The outline as an SVG path.
    """

    width: float
    height: float
    depth: float
    box: str
    path: str


@lru_cache(maxsize=256)
def draw(latex: str) -> Drawing | None:
    """Return the drawn formula, or None if mathtext cannot read it."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    try:
        outline = TextPath(
            (0, 0),
            f"${respell(latex)}$",
            size=SIZE,
            prop=FontProperties(math_fontfamily="cm"),
        )
    except (ValueError, RuntimeError):
        return None
    if "$" in latex or not len(outline.vertices):
        return None
    box = outline.get_extents()
    left = box.x0 - MARGIN
    top = -box.y1 - MARGIN
    width = box.width + 2 * MARGIN
    height = box.height + 2 * MARGIN
    return Drawing(
        width=round(width / SIZE, 3),
        height=round(height / SIZE, 3),
        depth=round((MARGIN - box.y0) / SIZE, 3),
        box=f"{left:.1f} {top:.1f} {width:.1f} {height:.1f}",
        path=_svg_path(outline),
    )


def respell(latex: str) -> str:
    """Return ``latex`` in the spelling that mathtext reads.

    See Note [What mathtext cannot read].
    """
    latex = _CASES.sub(lambda match: _stack(match[1]), latex)
    return _COMMAND.sub(lambda match: _SPELLINGS.get(match[0], match[0]), latex)


def _stack(rows: str) -> str:
    """The rows of a case distinction as a stack behind one brace."""
    lines = [row.strip().replace("&", r"\quad ") for row in rows.split(r"\\") if row.strip()]
    return r"\left\{ \substack{" + r" \\ ".join(lines) + r"} \right."


def _svg_path(outline: Any) -> str:
    """A path of matplotlib as an SVG path: y downwards, to a hundredth of a unit."""
    letters = {1: "M", 2: "L", 3: "Q", 4: "C", 79: "Z"}
    parts = []
    for points, code in outline.iter_segments(simplify=False, curves=True):
        numbers = []
        for place, value in enumerate(points if code != 79 else ()):
            flipped = -value if place % 2 else value
            numbers.append(f"{flipped:.2f}".rstrip("0").rstrip("."))
        parts.append(letters[int(code)] + " ".join(numbers))
    return "".join(parts)
