"""Sections of a diagnosis about weights: opposite filters, orthogonality, priors of regions."""

import itertools
from collections.abc import Sequence
from typing import Any

from gatewise.report.charts import Cell, Chart, Mark, Panels, Picture, Series, Table
from gatewise.report.diagnosis.layer_charts import (
    Facts,
    column,
    layer_chart,
    layer_series,
    value_cell,
)
from gatewise.report.diagnosis.pictures import beside, pixels_of
from gatewise.report.sheet import Folded, Text
from gatewise.words import count, join, p_value, signed

MOST_PANELS = 8
MOST_PAIRS = 18
PAIR_WIDTH = 104  # pixels of the page
HISTOGRAM_END = 0.3  # correlations with the most opposite filter are rarely larger
SURE = 0.01  # a corrected p-value below this is coloured

PAIRING = (
    "The partner of a filter is the filter of the same layer that is most opposite to it. "
    "A correlation of −1 means an exact opposite. Random filters have partners too. "
    "The p-value is the chance that random filters have a mean as low, corrected for the number "
    "of layers. Filters that lie near a few directions are not random either, but they are as "
    "similar as they are opposite. The second p-value flips the sign of every filter at random "
    "and asks how often that gives as strong a result. "
    "If both p-values are small, the layer learned filters with both signs. "
    "CReLU stores such a pair as one filter."
)
ORTHOGONALITY = (
    "If the filters of a layer are orthogonal, the gate of each filter can be decided separately. "
    "The overlap measures the distance from that: the sum of the squared cosines of a filter with "
    "all others, averaged over the filters. Random filters have an overlap of about their number "
    "divided by their length. The frame bounds are the smallest and the largest value of "
    "|W x|² / |x|²."
)
PRIOR = (
    "A max-affine layer is a mixture of Gaussians with one component per region. "
    "Before it has seen an input, a unit is in its active region with probability "
    "σ(|a|²/2 + b), where a are its weights and b is its offset. "
    "At 1/2 nothing is decided in advance. Near 0 or 1, the weights and the offset decide more "
    "than the input. Normalisation after the layer is not counted."
)


def show_pairing(facts: Facts) -> list[Any]:
    """Return means against random filters, histograms, and pairs of the first layer."""
    rows = facts["layers"]
    items: list[Any] = [Text([PAIRING]), _pairing_chart(rows, facts["draws"])]
    known = [row for row in rows if row["mean"] is not None]  # None if all filters are zero
    known.sort(key=lambda row: row["mean"] - row["chance_mean"])
    if known:
        about = "Bars: correlation of every filter with its partner. Line: random filters."
        charts = [_pairing_histogram(row, facts["bins"]) for row in known[:MOST_PANELS]]
        items.append(Panels("Layers furthest from random filters", about, charts))
    if facts["pictures"]:
        pictures = [_pair(pair) for pair in facts["pictures"][:MOST_PAIRS]]
        about = "The most opposite pairs first."
        items.append(Panels("Filters of the first layer next to their partners", about, pictures))
    items.append(Folded(f"All {len(rows)} layers in a table", [_pairing_table(rows)]))
    reasons = list(facts["too_large"])
    reasons += [f"{name}: fewer than three filters" for name in facts["left_out"]]
    if reasons:
        items.append(Text([f"Left out: {'; '.join(reasons)}."]))
    return items


def _pairing_chart(rows: Sequence[Facts], draws: int) -> Chart:
    """The mean correlation with the most opposite and the most similar filter by layer."""
    names = column(rows, "layer")
    random = column(rows, "chance_mean")
    # Random filters have no preferred sign: the most similar one mirrors the most opposite one.
    mirrored = [-value for value in random]
    partner = layer_series("partner", names, column(rows, "mean"), "mean", kind="dots")
    similar = layer_series(
        "most similar filter",
        names,
        column(rows, "similar_mean"),
        "mean",
        kind="dots",
        colour="two",
    )
    return layer_chart(
        "Correlation with the closest filters",
        "Mean over the filters of a layer. "
        f"Random filters: mean over {draws} random sets of filters.",
        "mean correlation",
        names,
        [
            partner,
            similar,
            layer_series("random filters", names, random, "random filters", colour="light"),
            layer_series("", names, mirrored, "random filters", colour="light"),
        ],
    )


def _pairing_histogram(row: Facts, bins: Sequence[float]) -> Chart:
    """The correlations of the filters of one layer with their partners."""
    trained = []
    random = []
    for place, (low, high) in enumerate(itertools.pairwise(bins)):
        middle = (low + high) / 2
        if middle < HISTOGRAM_END:
            trained.append((middle, row["histogram"][place]))
            random.append((middle, row["chance_histogram"][place]))
    about = (
        f"{signed(row['mean'])}; random filters {signed(row['chance_mean'])}; "
        f"p {p_value(row['p_corrected'])}"
    )
    if "similar_mean" in row:
        similar = signed(row["similar_mean"])
        about += f"; most similar {similar}; p of signs {p_value(row['p_phases_corrected'])}"
    return Chart(
        row["layer"],
        about,
        "correlation",
        "share",
        [Series("filters", trained, kind="bars"), Series("random", random, colour="two")],
        small=True,
        x_range=(-1.0, HISTOGRAM_END),
    )


def _pair(pair: Facts) -> Picture:
    """A filter of the first layer next to its partner."""
    pixels = pixels_of(pair["pixels"])
    partner = pixels_of(pair["partner_pixels"])
    shown = beside([pixels, partner], scale=max(1, PAIR_WIDTH // (2 * pixels.shape[1])))
    title = f"{pair['filter']} and {pair['partner']}"
    return Picture(title, shown, scale=1, about=signed(pair["correlation"]))


def _pairing_table(rows: Sequence[Facts]) -> Table:
    """All numbers on opposite filters, one row per layer."""
    columns = [
        "layer",
        "filters",
        "length",
        "mean",
        "random filters",
        "p, corrected",
        "most similar",
        "p of signs",
    ]
    cells = []
    for row in rows:
        cells.append(
            [
                row["layer"],
                count(row["filters"]),
                count(row["length"]),
                value_cell(row["mean"], signed),
                value_cell(row["chance_mean"], signed),
                _p_cell(row["p_corrected"]),
                value_cell(row.get("similar_mean"), signed),
                _p_cell(row.get("p_phases_corrected")),
            ]
        )
    return Table(columns, cells, align="lrrrrrrr")


def _p_cell(p: float | None) -> Cell:
    """A p-value, coloured if it is small; empty if an older diagnosis has none."""
    return Cell(p_value(p), value=p, look="up" if p is not None and p < SURE else "")


def show_orthogonality(facts: Facts) -> list[Any]:
    """Return the coherence next to the smallest possible, the stretch, and spectra."""
    rows = facts["layers"]
    names = column(rows, "name")
    stretches = [_stretch(row) for row in rows]
    coherence = layer_series("filters", names, column(rows, "coherence"), "coherence", kind="dots")
    smallest = layer_series(
        "smallest possible", names, column(rows, "least_coherence"), "at least", colour="light"
    )
    stretch = layer_series("stretch", names, stretches, "stretch", kind="dots")
    by_stretch = sorted(zip(stretches, rows, strict=True), key=lambda pair: -(pair[0] or 0))
    table = _orthogonality_table(rows, stretches)
    return [
        Text([ORTHOGONALITY]),
        layer_chart(
            "Coherence",
            "The largest |cosine| between two filters, and the smallest value that is possible "
            "for their number and length.",
            "|cosine|",
            names,
            [coherence, smallest],
            y_range=(0.0, 1.05),
        ),
        layer_chart(
            "Stretch",
            "The largest divided by the smallest factor by which the layer stretches an input.",
            "factor",
            names,
            [stretch],
            y_log=True,
        ),
        Panels(
            "Layers with the largest stretch",
            "Squared singular values of the normalised filters, the largest first. "
            "All are 1 if the filters are orthogonal.",
            [_spectrum(row) for _, row in by_stretch[:MOST_PANELS]],
        ),
        Folded(f"All {len(rows)} layers in a table", [table]),
    ]


def _stretch(row: Facts) -> float | None:
    """The largest over the smallest factor; None if some direction is lost."""
    low, high = row["frame_bounds"]
    return (high / low) ** 0.5 if low > 0 else None


def _spectrum(row: Facts) -> Chart:
    """The squared singular values of the filters of one layer."""
    values = row["spectrum"]
    last = max(1, len(values) - 1)
    points = [(100 * place / last, value) for place, value in enumerate(values)]
    return Chart(
        row["name"],
        "",
        "% of directions",
        "squared value",
        [Series("filters", points)],
        marks=[Mark("orthogonal", y=1.0)],
        small=True,
    )


def _orthogonality_table(rows: Sequence[Facts], stretches: Sequence[float | None]) -> Table:
    """All numbers on orthogonality, one row per layer."""
    columns = [
        "layer",
        "filters",
        "length",
        "coherence",
        "smallest possible",
        "overlap",
        "frame, low",
        "frame, high",
        "stretch",
        "zero filters",
    ]
    cells = []
    for row, stretch in zip(rows, stretches, strict=True):
        nonzero = max(1, row["filters"] - row["zero_filters"])
        cells.append(
            [
                row["name"],
                count(row["filters"]),
                count(row["length"]),
                value_cell(row["coherence"]),
                value_cell(row["least_coherence"]),
                value_cell(row["overlap"] / nonzero),
                *map(value_cell, row["frame_bounds"]),
                value_cell(stretch),
                count(row["zero_filters"]),
            ]
        )
    return Table(columns, cells, align="l" + "r" * (len(columns) - 1))


def show_prior(facts: Facts) -> list[Any]:
    """Return the prior of the active region now and at initialisation."""
    rows = facts["layers"]
    names = column(rows, "layer")
    quantiles = column(rows, "quantiles")  # 0, 10, 50, 90 and 100 %
    medians = [values[2] for values in quantiles]
    band = [(values[1], values[3]) for values in quantiles]
    series = [
        layer_series("now", names, medians, "median", kind="dots", band=band),
        layer_series("He initialisation", names, column(rows, "he"), "He", colour="two"),
        layer_series(
            "Xavier initialisation", names, column(rows, "xavier"), "Xavier", colour="light"
        ),
    ]
    about = "Dot: median filter. Bar: the middle 80 % of filters."
    title = "Prior of the active region"
    chart = layer_chart(title, about, "prior", names, series, y_range=(0.0, 1.02))
    cells = []
    for row in rows:
        low, _, middle, _, high = row["quantiles"]
        values = [low, middle, high, row["he"], row["xavier"]]
        cells.append([row["layer"], count(row["filters"]), *map(value_cell, values)])
    columns = ["layer", "filters", "smallest", "median", "largest", "He", "Xavier"]
    table = Table(columns, cells, align="lrrrrrr")
    items = [Text([PRIOR]), chart, Folded(f"All {len(rows)} layers in a table", [table])]
    names_left_out = facts.get("left_out")
    if names_left_out:
        items.append(Text([f"Left out, because no unit follows: {join(names_left_out)}."]))
    return items


SHOWN = {"pairing": show_pairing, "orthogonality": show_orthogonality, "prior": show_prior}
