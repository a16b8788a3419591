"""Sections of a diagnosis about activation functions and their gates."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gatewise.report.charts import Cell, Chart, Panels, Picture, Series
from gatewise.report.diagnosis.fact_tables import fact_table, folded_table, shown
from gatewise.report.diagnosis.layer_charts import (
    Facts,
    column,
    layer_chart,
    layer_series,
    left_out,
    percent,
)
from gatewise.words import count

MOST_PANELS = 8
PICTURE_WIDTH = 160  # pixels of the page


def show_gates(facts: Facts) -> list[Any]:
    """Return firing rates, histograms, all numbers and trained parameters."""
    sites = facts["sites"]
    least = sorted(sites, key=lambda site: site["entropy"])[:MOST_PANELS]
    items: list[Any] = [
        _rates_chart(sites),
        Panels(
            "Activations whose gates carry the least information",
            "Number of channels by how often they fire.",
            [_histogram(site) for site in least],
        ),
        folded_table(sites, GATE_COLUMNS, "activations"),
    ]
    parameters = []
    for site in sites:
        for name, values in site["parameters"].items():
            parameters.append({"site": site["site"], "name": name, **values})
    if parameters:
        caption = "Trained parameters of the units"
        items.append(fact_table(parameters, PARAMETER_COLUMNS, caption))
    return items + left_out(facts)


def _rates_chart(sites: Sequence[Facts]) -> Chart:
    """How often the channels of each activation fire, and the entropy of its gates."""
    names = column(sites, "site")
    quantiles = column(sites, "quantiles")  # 0, 10, 50, 90 and 100 %
    medians = [values[2] for values in quantiles]
    band = [(values[1], values[3]) for values in quantiles]
    rates = layer_series("median channel", names, medians, "firing rate", kind="dots", band=band)
    bits = layer_series("entropy", names, column(sites, "entropy"), "bits", colour="two")
    about = "Dot: median channel. Bar: the middle 80 % of channels. Line: entropy, in bits."
    title = "How often channels fire"
    label = "firing rate, bits"
    return layer_chart(title, about, label, names, [rates, bits], y_range=(0.0, 1.05))


def _count_alike(site: Facts) -> int:
    """How many channels are on for exactly the same inputs as another."""
    return sum(len(group) - 1 for group in site["duplicates"])


def _histogram(site: Facts) -> Chart:
    """The number of channels by how often they fire, for one activation."""
    step = 1 / len(site["histogram"])
    points = [((place + 0.5) * step, value) for place, value in enumerate(site["histogram"])]
    return Chart(
        site["site"],
        f"{site['entropy']:.2f} bits",
        "firing rate",
        "channels",
        [Series("channels", points, kind="bars")],
        small=True,
        x_range=(0.0, 1.0),
    )


def _dead(site: Facts) -> Cell:
    return Cell(count(len(site["dead"])), len(site["dead"]), look="down" if site["dead"] else "")


GATE_COLUMNS = {
    "after layer": "site",
    "unit": "unit",
    "on means": "on",
    "channels": "channels",
    "firing rate": shown("on_rate", percent),
    "bits": "entropy",
    "dead": _dead,
    "always off": lambda site: len(site["always_off"]),
    "always on": lambda site: len(site["always_on"]),
    "alike": _count_alike,
    "first token only": lambda site: len(site["first_only"]),
    "saturated": lambda site: site.get("saturated", "hard"),
}
PARAMETER_COLUMNS = {
    "after layer": "site",
    "parameter": "name",
    "numbers": "count",
    "smallest": "least",
    "mean": "mean",
    "largest": "most",
}


def show_overlap(facts: Facts) -> list[Any]:
    """Return the overlap of inputs and of classes as pictures, and of classes in a table."""
    classes = facts["classes"]
    pictures = []
    if facts["inputs"]:
        pictures.append(_grid("of inputs", facts["inputs"], hide_diagonal=True))
    if len(classes) > 1 and facts["between"]:
        pictures.append(_grid("of classes", facts["between"]))
    about = "Black is the lowest value, white the highest. The diagonal of inputs is left out."
    items: list[Any] = [Panels("Shared gates", about, pictures)]
    if len(classes) > 1:
        columns: dict[str, Any] = {"class": "class", "inputs": "inputs"}
        columns |= {str(name): shown(str(name), percent) for name in classes}
        rows = []
        for name, inputs, values in zip(classes, facts["counts"], facts["between"], strict=True):
            shares = dict(zip(map(str, classes), values, strict=True))
            rows.append({"class": str(name), "inputs": inputs, **shares})
        items.append(folded_table(rows, columns, "classes"))
    return items


def _grid(
    title: str, values: Sequence[Sequence[float | None]], hide_diagonal: bool = False
) -> Picture:
    """A matrix as a picture from black, the lowest value, to white. Unknown values are grey."""
    grid = np.array(values, dtype=np.float64)  # None becomes NaN
    if hide_diagonal:
        np.fill_diagonal(grid, np.nan)
    low, high = 0.0, 1.0
    if not np.isnan(grid).all():
        low, high = np.nanmin(grid), np.nanmax(grid)
    pixels = np.nan_to_num(255 * (grid - low) / max(high - low, 1e-12), nan=128.0)
    about = f"{low:.1%} to {high:.1%} of all gates"
    scale = max(1, PICTURE_WIDTH // len(grid))
    return Picture(title, np.rint(pixels).astype(np.uint8), scale=scale, about=about)


def show_invariance(facts: Facts) -> list[Any]:
    """Return the scores over the layers, and by transform in a table."""
    rows = facts["layers"]
    transforms = facts["transforms"]
    names = column(rows, "layer")
    series = [layer_series("mean", names, column(rows, "mean"), "score")]
    for place, transform in enumerate(transforms):
        values = [row["transforms"][place] for row in rows]
        series.append(layer_series(transform, names, values, "score", colour="light"))
    about = (
        "1: the filter no longer fires where it should. "
        f"{1 / facts['rate']:.0f}: moving the image changes nothing."
    )
    chart = layer_chart("Invariance score", about, "score", names, series, y_log=True)
    columns: dict[str, Any] = {
        "layer": "layer",
        "filters": "filters",
        "silent": "silent",
        "mean": "mean",
    }
    for place, transform in enumerate(transforms):
        columns[transform] = lambda row, place=place: row["transforms"][place]
    return [chart, folded_table(rows, columns, "layers"), *left_out(facts)]


SHOWN = {
    "gates": show_gates,
    "overlap": show_overlap,
    "invariance": show_invariance,
}
