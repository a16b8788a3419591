"""Panels of curves and images as one picture, by matplotlib."""

import math
from collections.abc import Sequence
from io import BytesIO
from textwrap import fill
from typing import Any

from gatewise.papers.common.records import Line, Numbers, Panel, Picture

WIDTH, HEIGHT, LEAST = 3.9, 3.3, 5.0  # inches: of one panel, and the least width of a picture
LETTERS = 13  # of the title, in an inch
MARKS = ("o", "s", "^", "v")  # for more lines than colours: the next seven have the next mark
APART = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#000000",
    "#e69f00",
)  # Okabe and Ito


def png(title: str, panels: Sequence[Panel | Picture]) -> bytes:
    """The panels side by side. The same panels give the same bytes."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"font.size": 9}):
        width = max(WIDTH * len(panels), LEAST)
        drawn = Figure(figsize=(width, HEIGHT + 0.3 + _room(panels)), layout="constrained")
        for axes, panel in zip(
            drawn.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
        ):
            _draw_image(axes, panel) if isinstance(panel, Picture) else _draw(axes, panel)
        drawn.suptitle(fill(title, int(LETTERS * width)), fontsize=10)
        out = BytesIO()
        drawn.savefig(out, format="png", dpi=110, metadata={"Software": None})
    return out.getvalue()


def _draw_image(axes: Any, picture: Picture) -> None:
    axes.imshow(picture.pixels, interpolation="nearest")
    axes.set_title(picture.title, fontsize=9)
    axes.set_axis_off()


def _labels(panel: Panel | Picture) -> list[str]:
    if isinstance(panel, Picture):
        return []
    return list(
        dict.fromkeys(line.label for line in panel.lines)
    )  # a theory has the colour of what it predicts


def _room(panels: Sequence[Panel | Picture]) -> float:
    """Inches below the panels, for the legend of many lines: it would hide them."""
    most = max(len(_labels(panel)) for panel in panels)
    return 0.12 * math.ceil(most / 2) if most > len(APART) else 0.0


def _draw(axes: Any, panel: Panel) -> None:
    labels = _labels(panel)
    measured = {line.label for line in panel.lines if not line.theory}
    colours = _colours(labels)
    marks = {label: MARKS[i // len(APART) % len(MARKS)] for i, label in enumerate(labels)}
    for line in panel.lines:
        # matplotlib leaves names with an underscore out of the legend
        named = not line.theory or line.label not in measured
        style = {"color": colours[line.label], "label": line.label if named else "_"}
        _draw_line(axes, line, style, marks[line.label], panel.log_y)
    axes.set_title(panel.title, fontsize=9)
    axes.set(xlabel=panel.xlabel, ylabel=panel.ylabel)
    axes.set(xscale="log" if panel.log_x else "linear", yscale="log" if panel.log_y else "linear")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if len(labels) > len(APART):
        axes.legend(
            fontsize=6, frameon=False, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.16)
        )
    elif len(labels) > 1:
        axes.legend(fontsize=7, frameon=False)


def _colours(labels: list[str]) -> dict[str, Any]:
    """Shades in order for a sequence of sizes, as ``d=2``.

    Else colours that all eyes tell apart.
    """
    from matplotlib import colormaps

    sizes = [label for label in labels if "=" in label]
    others = [label for label in labels if "=" not in label]
    shades = {
        label: colormaps["viridis"](0.9 * i / max(len(sizes) - 1, 1))
        for i, label in enumerate(sizes)
    }
    return shades | {label: APART[i % len(APART)] for i, label in enumerate(others)}


def _draw_line(axes: Any, line: Line, style: dict[str, Any], mark: str, log: bool) -> None:
    """The mean, and a band one deviation to each side.

    On a logarithmic axis as far below as above.
    """
    x, y = _floats(line.x), _floats(line.mean)
    alone = {"marker": mark, "ms": 3} if len(x) <= 12 and not line.theory else {}
    axes.plot(x, y, ls="--" if line.theory else "-", lw=1.2, **style, **alone)
    if line.spread is not None:
        spread = _floats(line.spread)
        high = [v + s for v, s in zip(y, spread, strict=True)]
        low = [v * v / h if log and h else 2 * v - h for v, h in zip(y, high, strict=True)]
        axes.fill_between(x, low, high, color=style["color"], alpha=0.15, lw=0)


def _floats(values: Numbers) -> list[float]:
    return [math.nan if value is None else float(value) for value in values]
