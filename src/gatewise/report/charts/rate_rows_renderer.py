"""Rows of curves and differences as one image file, drawn by matplotlib."""

import math
from io import BytesIO
from typing import Any

from gatewise.report.charts.layout import lay_out
from gatewise.report.charts.palette import COLOURS
from gatewise.report.charts.rate_rows_layout import RateRowsLayout
from gatewise.report.charts.records import RateRow, RateRows
from gatewise.words import rate

WIDTH = 10.0  # inches
ROW = 0.68
EDGES = 1.1  # inches above and below the rows
LEFT = 0.2
METADATA = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


def rate_rows_picture(rows: RateRows, format: str = "png") -> bytes:
    """Return the rows as the bytes of an image file. The same rows give the same bytes.

    Args:
        rows: What is drawn.
        format: ``png``, ``svg`` or ``pdf``.
    """
    import matplotlib
    from matplotlib.figure import Figure

    layout: RateRowsLayout = lay_out(rows)
    count = max(1, len(rows.rows))
    height = EDGES + ROW * count

    with matplotlib.rc_context(
        {"font.size": 9, "svg.hashsalt": "gatewise", "text.parse_math": False}
    ):
        figure = Figure(figsize=(WIDTH, height))
        widths = [1.0 if layout.x else 0.01, 1.0 if layout.d else 0.01]
        axes = figure.subplots(
            count,
            2,
            squeeze=False,
            gridspec_kw={
                "left": LEFT,
                "right": 0.985,
                "bottom": 0.45 / height,
                "top": 1 - 0.65 / height,
                "hspace": 0.25,
                "wspace": 0.1,
                "width_ratios": widths,
            },
        )
        for place, row in enumerate(rows.rows):
            is_last = place == count - 1
            _draw_curve(axes[place][0], rows.baseline, row, layout, is_last)
            _draw_difference(axes[place][1], row, layout, is_last)
            box = axes[place][0].get_position()
            figure.text(0.015, box.y0 + 0.66 * box.height, row.name, weight="bold", size=10.5)
            colour = COLOURS[row.colour]
            figure.text(0.015, box.y0 + 0.14 * box.height, row.verdict, color=colour, size=8.5)
        for column, words in enumerate((rows.curve_label, rows.difference_label)):
            if words:
                box = axes[0][column].get_position()
                top = box.y1 + 0.14 / height
                figure.text(box.x0, top, words, color=COLOURS["flat"], size=9.5)
        if rows.title:
            figure.text(0.015, 1 - 0.24 / height, rows.title, weight="bold", size=10.5)
        out = BytesIO()
        figure.savefig(out, format=format, dpi=130, metadata=METADATA.get(format, {}))
    return out.getvalue()


def _draw_curve(
    axes: Any,
    baseline: RateRow,
    row: RateRow,
    layout: RateRowsLayout,
    is_last: bool,
) -> None:
    """Draw the curve of a unit on top of the baseline's."""
    if layout.x is None or layout.y is None:
        axes.set_axis_off()
        return
    for each, colour, front in ((baseline, COLOURS["light"], 2), (row, COLOURS[row.colour], 4)):
        x = [point[0] for point in each.curve]
        y = [point[1] for point in each.curve]
        alpha, width = (0.6, 1.6) if front == 2 else (1.0, 2.0)
        axes.plot(x, y, color=colour, lw=width, alpha=alpha, zorder=front)
        if each.band:
            low, high = zip(*each.band, strict=True)
            axes.fill_between(x, low, high, color=colour, alpha=0.16, lw=0, zorder=front - 1)
    if row.best is not None:
        axes.plot(*row.best, "o", ms=5, color=COLOURS[row.colour], zorder=5)
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set(xlim=(layout.x.low, layout.x.high), ylim=(layout.y.low, layout.y.high))
    _frame(axes, [tick.value for tick in layout.across], is_last)
    if is_last:
        axes.set_xticklabels([rate(tick.value) for tick in layout.across])


def _draw_difference(axes: Any, row: RateRow, layout: RateRowsLayout, is_last: bool) -> None:
    """Draw the difference of a unit with its interval."""
    if layout.d is None:
        axes.set_axis_off()
        return
    axes.set(xlim=(layout.d.low, layout.d.high), ylim=(0, 1))
    _frame(axes, [tick.value for tick in layout.along], is_last)
    axes.axvline(0, color=COLOURS["flat"], lw=1)
    colour = COLOURS[row.colour]
    if math.isfinite(row.low) and math.isfinite(row.high):
        axes.plot((row.low, row.high), (0.36, 0.36), color=colour, lw=2.6, solid_capstyle="butt")
    if math.isfinite(row.value):
        axes.plot(row.value, 0.36, "o", ms=6, color=colour)
        axes.text(
            1.0,
            0.68,
            row.figures,
            color=colour,
            ha="right",
            transform=axes.transAxes,
        )
    if is_last:
        axes.set_xticklabels([tick.label for tick in layout.along])


def _frame(axes: Any, ticks: list[float], is_last: bool) -> None:
    """Draw upright grid lines; names of ticks below the last row only."""
    axes.set_xticks(ticks)
    axes.set_yticks([])
    axes.grid(axis="x", color="#dfe2e0", lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    axes.tick_params(axis="x", length=0, labelbottom=is_last, labelsize=8)
