"""The plot of one unit as a picture file, by matplotlib."""

from io import BytesIO
from typing import Any

from gatewise.report.records import Plot, Point
from gatewise.report.words import number

COLOURS = ("#2b5fb8", "#b35c00")
LIGHT = ("-", "--", ":", "-.")
WITHOUT_DATE = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}  # same picture, same bytes


def figure(title: str, plot: Plot, format: str) -> bytes:
    """Value and derivative side by side, as the bytes of a png, svg or pdf file."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "gatewise", "text.parse_math": False}):
        drawn = Figure(figsize=(9, 3.6), layout="constrained")
        left, right = drawn.subplots(1, 2)
        for axes, what in ((left, "value"), (right, "slope")):
            _draw(axes, plot, what)
        drawn.suptitle(title, fontsize=11)
        if len(plot.curves) > 1 or any(line.part for curve in plot.curves for line in curve.lines):
            left.legend(fontsize=8, frameon=False)
        out = BytesIO()
        drawn.savefig(out, format=format, dpi=150, metadata=WITHOUT_DATE.get(format, {}))
    return out.getvalue()


def _draw(axes: Any, plot: Plot, what: str) -> None:
    """One panel: other options light and underneath, the default ones on top, kinks as rings."""
    for i, curve in enumerate(plot.curves):
        for j, line in enumerate(curve.lines):
            label = f"{curve.label}, {line.part}" if line.part else curve.label
            axes.plot(*_columns(getattr(line, what)), label=label, **_look(i, j))
    for kink in plot.kinks:
        for j, y in enumerate(kink.values if what == "value" else (kink.slope,)):
            axes.plot([kink.x], [y], "o", mfc="white", mec=COLOURS[min(j, 1)], ms=5, zorder=4)
    axes.set_title("value" if what == "value" else "derivative", fontsize=10)
    axes.grid(alpha=0.3)
    axes.xaxis.set_major_formatter(lambda x, _: number(x))
    axes.spines[["top", "right"]].set_visible(False)


def _columns(points: tuple[Point, ...]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _look(curve: int, part: int) -> dict[str, Any]:
    if curve:
        return {"color": "#8a949e", "lw": 1.1, "ls": LIGHT[(curve - 1) % len(LIGHT)], "zorder": 2}
    return {"color": COLOURS[min(part, 1)], "lw": 2, "zorder": 3}
