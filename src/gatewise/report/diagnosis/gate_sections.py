"""Sections of a diagnosis about activation sites and their gates."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gatewise.report.charts import Cell, Chart, Panels, Picture, Series, Table
from gatewise.report.diagnosis.layer_charts import along, layer_chart, percent, said
from gatewise.report.sheet import Folded, Text
from gatewise.words import count, join

Facts = Mapping[str, Any]
PANELS = 8


def show_sites(facts: Facts) -> list[Any]:
    """Every site in a table."""
    rows = [
        [
            each["name"],
            each["op"],
            each["kind"],
            each["role"],
            str(each["channels"] or ""),
            join(each["producers"]),
            join(each["consumers"]),
        ]
        for each in facts["sites"]
    ]
    columns = ["site", "unit", "called as", "role", "channels", "made by", "read by"]
    table = Table(columns, rows, align="llllrll")
    notes = [Text([note]) for note in facts["notes"]]
    return [Folded(f"All {len(rows)} sites in a table", [table], open=len(rows) <= 12), *notes]


def show_gates(facts: Facts) -> list[Any]:
    """On-rates over the sites, counts of what does not work, histograms, learned numbers."""
    sites = facts["sites"]
    names = [each["site"] for each in sites]
    middle = along(
        "median channel", names, [each["quantiles"][2] for each in sites], "on rate", kind="dots"
    )
    bands = [(each["quantiles"][1], each["quantiles"][3]) for each in sites]
    rates = Series(middle.name, middle.points, band=bands, kind="dots", notes=middle.notes)
    bits = along(
        "entropy of a gate", names, [each["entropy"] for each in sites], "bits", colour="two"
    )
    items: list[Any] = [Text([GATES])]
    about = "Dots are the median channel, whiskers the tenth to the ninetieth percent of channels; the line is in bits."
    items.append(
        layer_chart(
            "How often gates are on",
            about,
            "share, bits",
            names,
            [rates, bits],
            y_range=(0.0, 1.05),
        )
    )
    if any(each["dead"] or each["always_on"] or each["duplicates"] for each in sites):
        items.append(_idle(sites, names))
    clearest = sorted(sites, key=lambda each: each["entropy"])[:PANELS]
    panels = [_histogram(each) for each in clearest]
    items.append(
        Panels("The sites whose gates tell least", "How many channels are on how often.", panels)
    )
    items.append(Folded(f"All {len(sites)} sites in a table", [_table(sites)]))
    if any(each["parameters"] for each in sites):
        items.append(_learned(sites))
    items += [Text([f"Left out: {'; '.join(facts['left_out'])}."])] if facts["left_out"] else []
    return items


def _idle(sites: Sequence[Facts], names: Sequence[str]) -> Chart:
    """Channels that tell nothing of their own."""
    counted: tuple[tuple[str, Callable[[Facts], int], str], ...] = (
        ("never on", lambda each: len(each["dead"]), "down"),
        ("always on", lambda each: len(each["always_on"]), "two"),
        ("copies", _copies, "light"),
    )
    series = [
        along(
            label,
            names,
            [100 * how_many(each) / each["channels"] for each in sites],
            "%",
            kind="bars",
            colour=colour,
        )
        for label, how_many, colour in counted
    ]
    return layer_chart(
        "Channels that tell nothing of their own", "", "% of channels", names, series
    )


def _copies(each: Facts) -> int:
    return sum(len(group) - 1 for group in each["duplicates"])


GATES = (
    "A unit's output is a gate times its response. A channel whose gate is never on passes nothing, and one that is "
    "always on is linear on these inputs; two whose gates agree on every input and place are copies. A gate that is on "
    "half the time tells one bit."
)


def _histogram(each: Facts) -> Chart:
    step = 1 / len(each["histogram"])
    points = [((place + 0.5) * step, value) for place, value in enumerate(each["histogram"])]
    series = [Series("channels", points, kind="bars")]
    return Chart(
        each["site"],
        f"{each['entropy']:.2f} bits",
        "on rate",
        "channels",
        series,
        small=True,
        x_range=(0.0, 1.0),
    )


def _table(sites: Sequence[Facts]) -> Table:
    columns = [
        "site",
        "unit",
        "channels",
        "on rate",
        "bits",
        "never on",
        "always on",
        "copies",
        "saturated",
    ]
    rows = [
        [
            each["site"],
            each["unit"],
            count(each["channels"]),
            said(each["on_rate"], percent),
            said(each["entropy"]),
            Cell(count(len(each["dead"])), look="down" if each["dead"] else ""),
            count(len(each["always_on"])),
            count(_copies(each)),
            count(each["saturated"]) if "saturated" in each else "hard",
        ]
        for each in sites
    ]
    return Table(columns, rows, align="llrrrrrrr")


def _learned(sites: Sequence[Facts]) -> Table:
    rows = [
        [
            each["site"],
            name,
            count(of["count"]),
            *(said(of[key]) for key in ("least", "mean", "most")),
        ]
        for each in sites
        for name, of in each["parameters"].items()
    ]
    return Table(
        ["site", "learned", "numbers", "least", "mean", "most"],
        rows,
        caption="What units have learned",
        align="llrrrr",
    )


def show_overlap(facts: Facts) -> list[Any]:
    """Overlaps of inputs and of classes as pictures, classes in a table."""
    items: list[Any] = [Text([OVERLAP])]
    grids = [("inputs", facts["inputs"])] + [("classes", facts["between"])] * (
        len(facts["classes"]) > 1
    )
    pictures = [_grid(f"of {name}", values) for name, values in grids if values]
    about = "Black is the least of the picture, white the most; an input with itself is left out."
    items.append(Panels("Overlap", about, pictures))
    if len(facts["classes"]) > 1:
        rows = [
            [str(name), count(inputs), *(said(value, percent) for value in row)]
            for name, inputs, row in zip(
                facts["classes"], facts["counts"], facts["between"], strict=True
            )
        ]
        columns = ["class", "inputs", *map(str, facts["classes"])]
        table = Table(columns, rows, align="lr" + "r" * len(facts["classes"]))
        items.append(Folded(f"The overlap of {len(rows)} classes in a table", [table]))
    return items


OVERLAP = (
    "The gates that are on for an input are the sub-network it goes through. Were every gate on equally often, "
    "and for each input by itself, two would share the square of the share that is on; gates that are on for most "
    "inputs, or for few, make it more. Classes that share no more among themselves than with others are not told apart "
    "by their gates."
)


def _grid(title: str, values: Sequence[Sequence[float | None]]) -> Picture:
    grid = np.array(
        [[np.nan if each is None else each for each in row] for row in values], dtype=np.float64
    )
    if title == "of inputs":
        np.fill_diagonal(grid, np.nan)
    low, high = (np.nanmin(grid), np.nanmax(grid)) if not np.isnan(grid).all() else (0.0, 1.0)
    pixels = np.nan_to_num(255 * (grid - low) / max(high - low, 1e-12), nan=128.0)
    about = f"{low:.1%} to {high:.1%} of all gates"
    return Picture(
        title, np.rint(pixels).astype(np.uint8), scale=max(1, 160 // len(grid)), about=about
    )


def show_invariance(facts: Facts) -> list[Any]:
    """Scores over the layers, and by transform in a table."""
    rows = facts["layers"]
    names = [row["layer"] for row in rows]
    mean = along("mean", names, [row["mean"] for row in rows], "score")
    single = [
        along(transform, names, [row["transforms"][place] for row in rows], "score", colour="light")
        for place, transform in enumerate(facts["transforms"])
    ]
    most = f"{1 / facts['rate']:.0f}"
    about = (
        f"Times chance: at 1 a filter does not know the moved image, at {most} it does not mind."
    )
    chart = layer_chart("Invariance score", about, "score", names, [mean, *single], y_log=True)
    columns = ["layer", "filters", "silent", "mean", *facts["transforms"]]
    cells = [
        [
            row["layer"],
            count(row["filters"]),
            count(row["silent"]),
            said(row["mean"]),
            *(said(value) for value in row["transforms"]),
        ]
        for row in rows
    ]
    table = Table(columns, cells, align="l" + "r" * (len(columns) - 1))
    items: list[Any] = [
        Text([INVARIANCE]),
        chart,
        Folded(f"All {len(rows)} layers in a table", [table]),
    ]
    return items + (
        [Text([f"Left out: {'; '.join(facts['left_out'])}."])] if facts["left_out"] else []
    )


INVARIANCE = (
    "A filter fires where its response is among its largest hundredth. The score says how much more often than by "
    "chance it fires again on the flipped, turned or shifted image, at the place that the image has moved it to: a "
    "convolution follows shifts by itself, so that what is missing there is the border's and the strides' doing. (The "
    'paper looks at the same place, where shifts are a matter of pooling: gw.invariance(..., location="same").)'
)

SHOWN = {
    "sites": show_sites,
    "gates": show_gates,
    "overlap": show_overlap,
    "invariance": show_invariance,
}
