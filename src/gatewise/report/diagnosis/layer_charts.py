"""Charts over the layers or sites of a network."""

from collections.abc import Callable, Sequence
from typing import Any

from gatewise.report.charts import Cell, Chart, Series
from gatewise.words import number

NAMED = 8  # layers whose names fit under a chart


def layer_chart(
    title: str,
    about: str,
    label: str,
    names: Sequence[str],
    series: list[Series],
    *,
    x_label: str = "layer",
    **more: Any,
) -> Chart:
    """Numbers over the layers, from the input on: by name where names fit.

    ``x_label``: what they are over instead.
    """
    fits = len(names) <= NAMED and max(map(len, names), default=0) * len(names) <= 90
    where = {"x_names": list(names)} if fits else {}
    below = "layer, from the input on" if x_label == "layer" and not fits else x_label
    return Chart(title, about, below, label, series, **where, **more)


def along(
    name: str, names: Sequence[str], values: Sequence[float | None], label: str, **look: Any
) -> Series:
    """A series with one point a layer, named in its tooltip."""
    points = [
        (place, float("nan") if value is None else value) for place, value in enumerate(values)
    ]
    notes = [
        f"{layer}: {label} {number(value, 4)}" for layer, value in zip(names, values, strict=True)
    ]
    return Series(name, points, notes=notes, **look)


def said(value: float | None, show: Callable[[float | None], str] = number) -> Cell:
    """A number in a table as people read it; a copy holds it in full."""
    return Cell(show(value), value=value)


def percent(value: float | None) -> str:
    """A share: ``12.3%``; nothing for None."""
    return "" if value is None else f"{value:.1%}"
