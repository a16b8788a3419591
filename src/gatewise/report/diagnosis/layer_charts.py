"""Charts over the layers of a network, and cells of tables, for all sections of a diagnosis."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gatewise.report.charts import Cell, Chart, Series
from gatewise.report.sheet import Text
from gatewise.words import number

Facts = Mapping[str, Any]  # the plain values of one answer, or of one entry in it
LONGEST = 30  # letters of a name below a chart, which may stand upright


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
        names: The layers. They stand below the axis; tooltips have them in full.
        series: What is drawn, with x = 0, 1, 2 and so on.
        x_label: What the horizontal axis shows.
        **options: Further fields of :class:`Chart`.
    """
    short = [name if len(name) <= LONGEST else f"…{name[1 - LONGEST :]}" for name in names]
    return Chart(title, about, x_label, label, series, x_names=short, **options)


def with_layer_names(facts: Any, layers: Mapping[str, str]) -> Any:
    """Return facts in which activations have the name of the layer before them.

    Args:
        facts: The facts of an answer, or any part of them.
        layers: The layer before each activation, by the name of the activation.
    """
    if isinstance(facts, Mapping):
        named = {}
        for key, value in facts.items():
            is_name = key in ("site", "name", "layer") and isinstance(value, str)
            named[key] = layers.get(value, value) if is_name else with_layer_names(value, layers)
        return named
    if isinstance(facts, list | tuple):
        return [with_layer_names(entry, layers) for entry in facts]
    return facts


def layer_labels(rows: Sequence[Facts]) -> dict[str, str]:
    """Return the layer before each activation; with the activation where several follow a layer."""
    times = Counter(row["layer"] for row in rows)
    labels = {}
    for row in rows:
        once = times[row["layer"]] == 1
        labels[row["site"]] = row["layer"] if once else f"{row['layer']} ({row['site']})"
    return labels


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
