"""LaTeX to a drawing that needs no fonts, and to a line of text. matplotlib's mathtext reads a part of LaTeX only."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

SIZE = 20.0  # of the drawing, in its own units: 1 em
MARGIN = 1.5

# Note [What mathtext cannot read]: these are spelt otherwise, or left out where they only change a
# size.
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

    ``depth`` is how far it reaches below the line of text; all in units of 1 em.
    """

    width: float
    height: float
    depth: float
    box: str
    path: str


@lru_cache(maxsize=256)
def draw(latex: str) -> Drawing | None:
    """The formula drawn, or None where mathtext cannot read it."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    try:
        outline = TextPath(
            (0, 0), f"${respell(latex)}$", size=SIZE, prop=FontProperties(math_fontfamily="cm")
        )
    except (ValueError, RuntimeError):
        return None
    if "$" in latex or not len(outline.vertices):
        return None
    box = outline.get_extents()
    left, top, width, height = (
        box.x0 - MARGIN,
        -box.y1 - MARGIN,
        box.width + 2 * MARGIN,
        box.height + 2 * MARGIN,
    )
    return Drawing(
        width=round(width / SIZE, 3),
        height=round(height / SIZE, 3),
        depth=round((MARGIN - box.y0) / SIZE, 3),
        box=f"{left:.1f} {top:.1f} {width:.1f} {height:.1f}",
        path=_svg_path(outline),
    )


def respell(latex: str) -> str:
    """``latex`` in the part of the language that mathtext reads.

    See Note [What mathtext cannot read].
    """
    latex = _CASES.sub(lambda found: _stack(found[1]), latex)
    return _COMMAND.sub(lambda found: _SPELLINGS.get(found[0], found[0]), latex)


def _stack(rows: str) -> str:
    lines = [row.strip().replace("&", r"\quad ") for row in rows.split(r"\\") if row.strip()]
    return r"\left\{ \substack{" + r" \\ ".join(lines) + r"} \right."


def _svg_path(outline: Any) -> str:
    """Matplotlib's path in SVG's language, y downwards, to a hundredth of a unit."""
    letters = {1: "M", 2: "L", 3: "Q", 4: "C", 79: "Z"}
    parts = []
    for points, code in outline.iter_segments(simplify=False, curves=True):
        flipped = [-v if i % 2 else v for i, v in enumerate(points)] if code != 79 else []
        parts.append(
            letters[int(code)] + " ".join(f"{v:.2f}".rstrip("0").rstrip(".") for v in flipped)
        )
    return "".join(parts)
