"""Charts over the layers of a network, and cells of tables, for all sections of a diagnosis."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gatewise.report.charts import Cell, Chart, Series
from gatewise.report.sheet import Text
from gatewise.words import number

Facts = Mapping[str, Any]  # the plain values of one answer, or of one entry in it
MOST_NAMES = 8  # names that fit below a chart
MOST_LETTERS = 90  # of all names together


def layer_chart(
    title: str,
    about: str,
    label: str,
    names: Sequence[str],
    series: list[Series],
    *,
    x_label: str = "layer",
    **options: Any,
) -> Chart:
    """Return a chart of numbers over the layers, from input to output.

    Args:
        title: The heading.
        about: A sentence on how to read it.
        label: What the vertical axis shows.
        names: The layers. They stand below the axis if they fit, and in tooltips anyway.
        series: What is drawn, with x = 0, 1, 2 and so on.
        x_label: What the horizontal axis shows.
        **options: Further fields of :class:`Chart`.
    """
    letters = max(map(len, names), default=0) * len(names)
    if len(names) <= MOST_NAMES and letters <= MOST_LETTERS:
        options["x_names"] = list(names)
    elif x_label == "layer":
        x_label = "layer, from input to output"
    return Chart(title, about, x_label, label, series, **options)


def layer_series(
    name: str, names: Sequence[str], values: Sequence[float | None], label: str, **look: Any
) -> Series:
    """Return a series with one point per layer.

    Args:
        name: The entry of the legend.
        names: The layers.
        values: One number per layer; None leaves the point out.
        label: What the number is, for the tooltip.
        **look: Further fields of :class:`Series`.
    """
    points = []
    notes = []
    for place, (layer, value) in enumerate(zip(names, values, strict=True)):
        points.append((place, math.nan if value is None else value))
        notes.append(f"{layer}: {label} {number(value, 4)}")
    return Series(name, points, notes=notes, **look)


def column(rows: Sequence[Facts], key: str) -> list[Any]:
    """Return the value of ``key`` in every row; None in a row without it."""
    return [row.get(key) for row in rows]


def value_cell(value: float | None, show: Callable[[float | None], str] = number) -> Cell:
    """Return a number as people read it. A copy of the table has it in full."""
    return Cell(show(value), value=value)


def percent(value: float | None) -> str:
    """Return a fraction of 1 in percent: ``12.3%``; empty for None."""
    return "" if value is None else f"{value:.1%}"


def left_out(facts: Facts) -> list[Text]:
    """Return a line on the parts of the model that were left out, with the reason."""
    reasons = facts.get("left_out")
    return [Text([f"Left out: {'; '.join(reasons)}."])] if reasons else []
