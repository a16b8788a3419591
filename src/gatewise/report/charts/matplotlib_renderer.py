"""Charts and pictures as one image file, drawn by matplotlib from the layout that pages use."""

import math
from io import BytesIO
from textwrap import fill
from typing import Any

from gatewise.report.charts.chart_layout import ChartLayout, Drawn
from gatewise.report.charts.layout import lay_out
from gatewise.report.charts.palette import COLOURS, SOLID
from gatewise.report.charts.picture_layout import PictureLayout
from gatewise.report.charts.records import Chart, Panels

WIDTH = 4.2  # inches of one chart
HEIGHT = 3.4
NARROWEST = 5.0  # inches of the whole image
LETTERS = 13  # of the title that fit into an inch
LINES = ("-", "--", ":", "-.")  # by the number of a dash
FEW = 12  # points: a line of no more shows each of them, as nothing in an image can be pointed at
# Without the date and the version of matplotlib the same panels give the same bytes.
METADATA = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}


def picture_file(panels: Panels, format: str = "png") -> bytes:
    """Return charts and pictures side by side as the bytes of an image file.

    Args:
        panels: What is drawn. ``about`` and tooltips are left out.
        format: ``png``, ``svg`` or ``pdf``. The same panels give the same bytes.
    """
    import matplotlib
    from matplotlib.figure import Figure

    # Dollar signs in names are text. The salt makes the ids in an svg the same every time.
    with matplotlib.rc_context(
        {"font.size": 9, "svg.hashsalt": "gatewise", "text.parse_math": False}
    ):
        layouts = [lay_out(item) for item in panels.items]
        width = max(WIDTH * len(layouts), NARROWEST)
        figure = Figure(figsize=(width, HEIGHT + _legend_height(panels)), layout="constrained")
        for axes, layout in zip(
            figure.subplots(1, len(layouts), squeeze=False)[0],
            layouts,
            strict=True,
        ):
            if isinstance(layout, PictureLayout):
                axes.imshow(layout.pixels, interpolation="nearest", cmap="gray", vmin=0, vmax=255)
                axes.set_title(layout.picture.title, fontsize=9)
                axes.set_axis_off()
            else:
                _draw_chart(axes, layout)
        if panels.legend and len(layouts[0].named) > 1:
            handles, labels = figure.axes[0].get_legend_handles_labels()
            figure.legend(
                handles,
                labels,
                loc="outside lower center",
                ncols=4,
                fontsize=8,
                frameon=False,
            )
        figure.suptitle(fill(panels.title, int(LETTERS * width)), fontsize=10)
        out = BytesIO()
        figure.savefig(out, format=format, dpi=130, metadata=METADATA.get(format, {}))
    return out.getvalue()


def _legend_height(panels: Panels) -> float:
    """Inches below the charts for the legend of many series: inside, it would hide them."""
    most = 0
    for item in panels.items:
        if isinstance(item, Chart) and item.legend:
            most = max(most, sum(bool(series.name) for series in item.series))
    if most > SOLID:
        return 0.12 * math.ceil(most / 2)
    return 0.0


def _draw_chart(axes: Any, layout: ChartLayout) -> None:
    """Draw one chart: series, axes, grid, marks and its legend."""
    chart = layout.chart
    for drawn in layout.drawn:
        _draw_series(axes, drawn)
    axes.set_title(chart.title, fontsize=9)
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label)
    _draw_axis(axes, "x", layout)
    _draw_axis(axes, "y", layout)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    _draw_marks(axes, layout)
    if not layout.has_legend:
        return
    if len(layout.named) > SOLID:
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16)}
        axes.legend(fontsize=6, frameon=False, ncols=2, **below)
    else:
        axes.legend(fontsize=7, frameon=False)


def _draw_axis(axes: Any, name: str, layout: ChartLayout) -> None:
    """Set the ends and the ticks of one axis, as a page has them."""
    scale = getattr(layout, name)
    ticks = layout.across if name == "x" else layout.up
    if scale.log:
        axes.set(**{f"{name}scale": "log"})
        axes.minorticks_off()
    axes.set(**{f"{name}lim": (scale.low, scale.high)})
    values = [tick.value for tick in ticks]
    labels = [tick.label for tick in ticks]
    axes.set(**{f"{name}ticks": values, f"{name}ticklabels": labels})


def _draw_series(axes: Any, drawn: Drawn) -> None:
    """Draw one series with its band, in the colour and line style of the layout."""
    series = drawn.series
    x = series.xs
    y = series.ys
    colour = COLOURS[series.colour]
    # matplotlib leaves labels that start with an underscore out of the legend.
    behind = series.colour == "light"
    look: dict[str, Any] = {"color": colour, "label": series.name or "_", "zorder": 3 - behind}
    if series.kind == "bars":
        left = [px - drawn.bar_start for px in x]
        axes.bar(left, y, width=drawn.bar_width, align="edge", alpha=0.8, **look)
    elif series.kind in ("dots", "rings"):
        face = "white" if series.kind == "rings" else colour
        axes.plot(x, y, "o", ms=5, mfc=face, **look)
    else:
        marker = "o" if len(x) <= FEW and drawn.dash == 0 else ""
        style = {"ls": LINES[drawn.dash], "lw": 1.1 if behind else 1.5}
        steps = "steps-post" if series.kind == "steps" else "default"
        axes.plot(x, y, marker=marker, ms=3, drawstyle=steps, **style, **look)
    if series.band:
        low, high = zip(*series.band, strict=True)
        if drawn.line:
            axes.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)
        else:
            axes.vlines(x, low, high, color=colour, alpha=0.65)


def _draw_marks(axes: Any, layout: ChartLayout) -> None:
    """Draw lines across the chart, and names at the places that the layout chose."""
    for mark in layout.chart.marks:
        if mark.y is None and mark.x is not None:
            axes.axvline(mark.x, color=COLOURS["flat"], lw=1, ls="--")
        elif mark.x is None and mark.y is not None:
            axes.axhline(mark.y, color=COLOURS["flat"], lw=1, ls="--")
    sides = {"start": "left", "middle": "center", "end": "right"}
    for label in layout.labels:
        axes.annotate(
            label.text,
            (label.x, 1 - label.y),
            xycoords="axes fraction",
            xytext=(label.right, -label.down),
            textcoords="offset points",
            ha=sides[label.anchor],
            fontsize=8,
        )
