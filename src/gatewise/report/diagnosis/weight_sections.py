"""Sections of a diagnosis about weights: opposite filters, orthogonality, priors of regions."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from gatewise.report.charts import Cell, Chart, Mark, Panels, Picture, Series
from gatewise.report.diagnosis.fact_tables import folded_table, shown
from gatewise.report.diagnosis.layer_charts import (
    Facts,
    column,
    layer_chart,
    layer_series,
)
from gatewise.report.diagnosis.pictures import beside, pixels_of
from gatewise.report.sheet import Text
from gatewise.words import join, p_value, signed

MOST_PANELS = 8
MOST_PAIRS = 18
PAIR_WIDTH = 104  # pixels of the page
HISTOGRAM_END = 0.3  # correlations with the most opposite filter are rarely larger
SURE = 0.01  # a corrected p-value below this is coloured


def show_pairing(facts: Facts) -> list[Any]:
    """Return means against random filters, histograms, and pairs of the first layer."""
    rows = facts["layers"]
    items: list[Any] = [_pairing_chart(rows, facts["draws"])]
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
    items.append(folded_table(rows, PAIRING_COLUMNS, "layers"))
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


def _p_value(key: str) -> Callable[[Facts], Cell]:
    """Return a column of p-values, coloured where they are small; empty if there is none."""

    def cell(row: Facts) -> Cell:
        p = row.get(key)
        return Cell(p_value(p), value=p, look="up" if p is not None and p < SURE else "")

    return cell


PAIRING_COLUMNS = {
    "layer": "layer",
    "filters": "filters",
    "length": "length",
    "mean": shown("mean", signed),
    "random filters": shown("chance_mean", signed),
    "p, corrected": _p_value("p_corrected"),
    "most similar": shown("similar_mean", signed),
    "p of signs": _p_value("p_phases_corrected"),
}


def show_orthogonality(facts: Facts) -> list[Any]:
    """Return the coherence next to the smallest possible, spectra, and all numbers."""
    rows = facts["layers"]
    names = column(rows, "name")
    coherence = layer_series("filters", names, column(rows, "coherence"), "coherence", kind="dots")
    smallest = layer_series(
        "smallest possible", names, column(rows, "least_coherence"), "at least", colour="light"
    )
    by_stretch = sorted(rows, key=lambda row: -(_stretch(row) or 0))
    return [
        layer_chart(
            "Coherence",
            "The largest |cosine| between two filters, and the smallest value that is possible "
            "for their number and length.",
            "|cosine|",
            names,
            [coherence, smallest],
            y_range=(0.0, 1.05),
        ),
        Panels(
            "Layers with the largest stretch",
            "Squared singular values of the normalised filters, the largest first. All are 1 if "
            "the filters are orthogonal. The stretch is the largest divided by the smallest factor "
            "by which the layer stretches an input.",
            [_spectrum(row) for row in by_stretch[:MOST_PANELS]],
        ),
        folded_table(rows, ORTHOGONALITY_COLUMNS, "layers"),
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


ORTHOGONALITY_COLUMNS = {
    "layer": "name",
    "filters": "filters",
    "length": "length",
    "coherence": "coherence",
    "smallest possible": "least_coherence",
    "overlap": lambda row: row["overlap"] / max(1, row["filters"] - row["zero_filters"]),
    "frame, low": lambda row: row["frame_bounds"][0],
    "frame, high": lambda row: row["frame_bounds"][1],
    "stretch": _stretch,
    "zero filters": "zero_filters",
}


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
    items = [chart, folded_table(rows, PRIOR_COLUMNS, "layers")]
    names_left_out = facts.get("left_out")
    if names_left_out:
        items.append(Text([f"Left out, because no unit follows: {join(names_left_out)}."]))
    return items


PRIOR_COLUMNS = {
    "layer": "layer",
    "filters": "filters",
    "smallest": lambda row: row["quantiles"][0],
    "median": lambda row: row["quantiles"][2],
    "largest": lambda row: row["quantiles"][4],
    "He": "he",
    "Xavier": "xavier",
}
SHOWN = {"pairing": show_pairing, "orthogonality": show_orthogonality, "prior": show_prior}
