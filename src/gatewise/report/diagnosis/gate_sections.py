"""Sections of a diagnosis about activation functions and their gates."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gatewise.report.charts import Cell, Chart, Panels, Picture, Series, Table
from gatewise.report.diagnosis.layer_charts import (
    Facts,
    column,
    layer_chart,
    layer_series,
    left_out,
    percent,
    value_cell,
)
from gatewise.report.sheet import Folded, Text
from gatewise.words import count, join

MOST_PANELS = 8
SHORT = 12  # a table of at most so many rows is open at first
PICTURE_WIDTH = 160  # pixels of the page

GATES = (
    "The output of an activation function is a gate times its input. "
    "A dead channel never fires, so it passes nothing. "
    "A channel that always fires is linear on these inputs. "
    "Two channels are duplicates if their gates agree on every input and at every place. "
    "A gate that is open half of the time carries one bit."
)
OVERLAP = (
    "The gates that are open for an input form the sub-network that the input passes through. "
    "If all gates were open equally often and independently, two inputs would share the square of "
    "the average firing rate. Gates that are almost always or almost never open raise this number. "
    "If two inputs of one class share no more than inputs of different classes, the gates do not "
    "separate the classes."
)
INVARIANCE = (
    "A filter fires where its response is among its largest 1 %. "
    "The score is how much more often than by chance it fires again on the flipped, rotated or "
    "shifted image, at the place that the pixel has moved to. A convolution follows shifts by "
    "construction; what is missing comes from borders and strides. "
    "(The paper compares the same place in both images, so that shifts test the pooling: "
    'gw.analysis.invariance(..., location="same").)'
)


def show_sites(facts: Facts) -> list[Any]:
    """Return a table of all activation functions."""
    rows = []
    for site in facts["sites"]:
        rows.append(
            [
                site["name"],
                site["op"],
                site["kind"],
                site["role"],
                str(site["channels"] or ""),
                join(site["producers"]),
                join(site["consumers"]),
            ]
        )
    columns = ["activation", "unit", "called as", "role", "channels", "input from", "output to"]
    table = Table(columns, rows, align="llllrll")
    summary = f"All {len(rows)} activation functions"
    notes = [Text([note]) for note in facts["notes"]]
    return [Folded(summary, [table], open=len(rows) <= SHORT), *notes]


def show_gates(facts: Facts) -> list[Any]:
    """Return firing rates, idle channels, histograms and trained parameters."""
    sites = facts["sites"]
    names = column(sites, "site")
    items: list[Any] = [Text([GATES]), _rates_chart(sites, names)]
    if any(site["dead"] or site["always_on"] or site["duplicates"] for site in sites):
        items.append(_idle_chart(sites, names))
    least = sorted(sites, key=lambda site: site["entropy"])[:MOST_PANELS]
    items.append(
        Panels(
            "Activations whose gates carry the least information",
            "Number of channels by how often they fire.",
            [_histogram(site) for site in least],
        )
    )
    items.append(Folded(f"All {len(sites)} activations in a table", [_gates_table(sites)]))
    if any(site["parameters"] for site in sites):
        items.append(_parameters_table(sites))
    return items + left_out(facts)


def _rates_chart(sites: Sequence[Facts], names: Sequence[str]) -> Chart:
    """How often the channels of each activation fire, and the entropy of its gates."""
    quantiles = column(sites, "quantiles")  # 0, 10, 50, 90 and 100 %
    medians = [values[2] for values in quantiles]
    band = [(values[1], values[3]) for values in quantiles]
    rates = layer_series("median channel", names, medians, "firing rate", kind="dots", band=band)
    bits = layer_series("entropy", names, column(sites, "entropy"), "bits", colour="two")
    about = "Dot: median channel. Bar: the middle 80 % of channels. Line: entropy, in bits."
    title = "How often channels fire"
    label = "firing rate, bits"
    return layer_chart(title, about, label, names, [rates, bits], y_range=(0.0, 1.05))


def _idle_chart(sites: Sequence[Facts], names: Sequence[str]) -> Chart:
    """The percentage of dead, always-on and duplicate channels by activation."""
    shares: dict[str, list[float]] = {"dead": [], "always on": [], "duplicates": []}
    for site in sites:
        per_channel = 100 / site["channels"]
        shares["dead"].append(per_channel * len(site["dead"]))
        shares["always on"].append(per_channel * len(site["always_on"]))
        shares["duplicates"].append(per_channel * _count_duplicates(site))
    series = []
    for (name, values), colour in zip(shares.items(), ("down", "two", "light"), strict=True):
        series.append(layer_series(name, names, values, "%", kind="bars", colour=colour))
    return layer_chart("Dead, always-on and duplicate channels", "", "% of channels", names, series)


def _count_duplicates(site: Facts) -> int:
    """How many channels could be removed without losing a gate."""
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


def _gates_table(sites: Sequence[Facts]) -> Table:
    """All numbers of all activations."""
    columns = [
        "after layer",
        "unit",
        "on means",
        "channels",
        "firing rate",
        "bits",
        "dead",
        "always on",
        "duplicates",
        "first token only",
        "saturated",
    ]
    rows = []
    for site in sites:
        rows.append(
            [
                site["site"],
                site["unit"],
                site["on"],
                count(site["channels"]),
                value_cell(site["on_rate"], percent),
                value_cell(site["entropy"]),
                Cell(count(len(site["dead"])), look="down" if site["dead"] else ""),
                count(len(site["always_on"])),
                count(_count_duplicates(site)),
                count(len(site["first_only"])),
                count(site["saturated"]) if "saturated" in site else "hard",
            ]
        )
    return Table(columns, rows, align="lllrrrrrrrr")


def _parameters_table(sites: Sequence[Facts]) -> Table:
    """The range of the trained parameters of each activation."""
    rows = []
    for site in sites:
        for name, values in site["parameters"].items():
            numbers = [value_cell(values[key]) for key in ("least", "mean", "most")]
            rows.append([site["site"], name, count(values["count"]), *numbers])
    columns = ["after layer", "parameter", "numbers", "smallest", "mean", "largest"]
    return Table(columns, rows, caption="Trained parameters of the units", align="llrrrr")


def show_overlap(facts: Facts) -> list[Any]:
    """Return the overlap of inputs and of classes as pictures, and of classes in a table."""
    classes = facts["classes"]
    pictures = []
    if facts["inputs"]:
        pictures.append(_grid("of inputs", facts["inputs"], hide_diagonal=True))
    if len(classes) > 1 and facts["between"]:
        pictures.append(_grid("of classes", facts["between"]))
    about = "Black is the lowest value, white the highest. The diagonal of inputs is left out."
    items: list[Any] = [Text([OVERLAP]), Panels("Shared gates", about, pictures)]
    if len(classes) > 1:
        rows = []
        for name, inputs, values in zip(classes, facts["counts"], facts["between"], strict=True):
            cells = [value_cell(value, percent) for value in values]
            rows.append([str(name), count(inputs), *cells])
        columns = ["class", "inputs", *map(str, classes)]
        table = Table(columns, rows, align="lr" + "r" * len(classes))
        items.append(Folded(f"The overlap of {len(rows)} classes in a table", [table]))
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
    cells = []
    for row in rows:
        scores = [value_cell(value) for value in (row["mean"], *row["transforms"])]
        cells.append([row["layer"], count(row["filters"]), count(row["silent"]), *scores])
    columns = ["layer", "filters", "silent", "mean", *transforms]
    table = Table(columns, cells, align="l" + "r" * (len(columns) - 1))
    folded = Folded(f"All {len(rows)} layers in a table", [table])
    return [Text([INVARIANCE]), chart, folded, *left_out(facts)]


SHOWN = {
    "sites": show_sites,
    "gates": show_gates,
    "overlap": show_overlap,
    "invariance": show_invariance,
}
