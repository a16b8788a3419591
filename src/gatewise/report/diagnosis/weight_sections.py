"""Sections of a diagnosis that are about weights.

Pairs of filters, orthogonality, the prior of regions.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from gatewise.report.charts import Cell, Chart, Mark, Panels, Picture, Series, Table
from gatewise.report.diagnosis.layer_charts import along, layer_chart, said
from gatewise.report.diagnosis.pictures import beside, pixels_of
from gatewise.report.sheet import Folded, Text
from gatewise.words import count, join, p_value, signed

Facts = Mapping[str, Any]
PANELS = 8  # histograms beside each other
PAIRS = 18
PAIR_WIDTH = 104  # pixels of the page


def show_pairing(facts: Facts) -> list[Any]:
    """Means against chance, histograms of the layers that pair most, the first layer's pairs."""
    rows = facts["layers"]
    names = [row["layer"] for row in rows]
    items: list[Any] = [Text([PAIRING])]
    items.append(_pairing_chart(rows, names, facts["draws"]))
    known = [row for row in rows if row["mean"] is not None]  # None where filters are all zero
    clearest = sorted(known, key=lambda row: row["mean"] - row["chance_mean"])[:PANELS]
    about = "Every filter's correlation with its partner (bars), and random filters' (line)."
    shown = [_histogram(row, facts["bins"]) for row in clearest]
    if shown:
        items.append(Panels("The layers furthest from chance", about, shown))
    if facts["pictures"]:
        items.append(
            Panels(
                "First-layer filters beside their partners",
                "The most opposite pairs first.",
                [_pair(each) for each in facts["pictures"][:PAIRS]],
            )
        )
    items.append(Folded(f"All {len(rows)} layers in a table", [_pairing_table(rows)]))
    if facts["too_large"] or facts["left_out"]:
        left = [
            *facts["too_large"],
            *(f"{name}: fewer than three filters" for name in facts["left_out"]),
        ]
        items.append(Text([f"Left out: {'; '.join(left)}."]))
    return items


PAIRING = (
    "The partner of a filter is the one of its layer that points most nearly the other way: −1 is its exact negative. "
    "Random filters have partners too; p says how often chance alone would give a mean as low, corrected for the "
    "number of layers. Filters near a few directions are far from random as well, but as alike as they are opposite: p "
    "of phases says how often the same filters, each with a sign by a coin, would be as much more opposite than alike. "
    "Layers where both are small learn both phases of one filter, which CReLU holds as one."
)


def _pairing_chart(rows: Sequence[Facts], names: Sequence[str], draws: int) -> Chart:
    about = f"Mean over a layer's filters, with the partner and with the most similar, and of {draws} sets of random ones."
    by_chance = [row["chance_mean"] for row in rows]
    similar = [row.get("similar_mean") for row in rows]
    mirrored = [-value for value in by_chance]  # random filters have no sign that is apart
    return layer_chart(
        "Correlation with the nearest filters",
        about,
        "mean correlation",
        names,
        [
            along("with the partner", names, [row["mean"] for row in rows], "mean", kind="dots"),
            along("with the most similar", names, similar, "mean", kind="dots", colour="two"),
            along("random filters", names, by_chance, "by chance", colour="light"),
            along("", names, mirrored, "by chance", colour="light"),
        ],
    )


def _histogram(row: Facts, bins: Sequence[float]) -> Chart:
    middles = [(low + high) / 2 for low, high in itertools.pairwise(bins)]
    last = max((i for i, value in enumerate(middles) if value < 0.3), default=len(middles) - 1) + 1
    own = Series("filters", list(zip(middles, row["histogram"], strict=True))[:last], kind="bars")
    random = Series(
        "random", list(zip(middles, row["chance_histogram"], strict=True))[:last], colour="two"
    )
    about = f"{signed(row['mean'])}, by chance {signed(row['chance_mean'])}; p {p_value(row['p_corrected'])}"
    if "similar_mean" in row:
        about += f"; most similar {signed(row['similar_mean'])}; p of phases {p_value(row['p_phases_corrected'])}"
    return Chart(
        row["layer"], about, "correlation", "share", [own, random], small=True, x_range=(-1.0, 0.3)
    )


def _pair(each: Facts) -> Picture:
    own, other = pixels_of(each["pixels"]), pixels_of(each["partner_pixels"])
    shown = beside([own, other], scale=max(1, PAIR_WIDTH // (2 * own.shape[1])))
    title = f"{each['filter']} and {each['partner']}"
    return Picture(title, shown, scale=1, about=signed(each["correlation"]))


def _pairing_table(rows: Sequence[Facts]) -> Table:
    columns = [
        "layer",
        "filters",
        "numbers each",
        "mean",
        "by chance",
        "p, corrected",
        "most similar",
        "p of phases",
    ]
    cells = [
        [
            row["layer"],
            count(row["filters"]),
            count(row["length"]),
            said(row["mean"], signed),
            said(row["chance_mean"], signed),
            _sure(row["p_corrected"]),
            said(row.get("similar_mean"), signed),
            _sure(row.get("p_phases_corrected")),
        ]
        for row in rows
    ]
    return Table(columns, cells, align="lrrrrrrr")


def _sure(p: float | None) -> Cell:
    """A p-value, coloured where it is a finding; nothing where an older diagnosis has none."""
    return Cell(p_value(p), value=p, look="up" if p is not None and p < 0.01 else "")


def show_orthogonality(facts: Facts) -> list[Any]:
    """Coherence beside the least possible, stretch, and spectra."""
    rows = facts["layers"]
    names = [row["name"] for row in rows]
    stretch = [_stretch(row) for row in rows]
    charts = [
        layer_chart(
            "Coherence",
            "The largest |cosine| between two filters, and the least that so many can have.",
            "|cosine|",
            names,
            [
                along(
                    "filters", names, [row["coherence"] for row in rows], "coherence", kind="dots"
                ),
                along(
                    "least possible",
                    names,
                    [row["least_coherence"] for row in rows],
                    "at least",
                    colour="light",
                ),
            ],
            y_range=(0.0, 1.05),
        ),
        layer_chart(
            "Stretch",
            "The largest over the smallest factor by which the layer stretches an input.",
            "factor",
            names,
            [along("stretch", names, stretch, "stretch", kind="dots")],
            y_log=True,
        ),
    ]
    widest = sorted(zip(stretch, rows, strict=True), key=lambda pair: -(pair[0] or 0))[:PANELS]
    spectra = [_spectrum(row) for _, row in widest]
    about = "Squared singular values of the unit-length filters, the largest first; all at 1 is orthogonal."
    table = Folded(f"All {len(rows)} layers in a table", [_orthogonality_table(rows, stretch)])
    return [
        Text([ORTHOGONALITY]),
        *charts,
        Panels("The layers that stretch most unevenly", about, spectra),
        table,
    ]


ORTHOGONALITY = (
    "Where a layer's filters are orthogonal, each of its units can be decided by itself, as if the others were not "
    "there. How far they are from it is their overlap: the squared cosines of a filter with all others, added up, on "
    "average over the filters; of random ones it would be about their number over their length. The frame bounds are "
    "the least and the largest of |W x|² / |x|²."
)


def _stretch(row: Facts) -> float | None:
    low, high = row["frame_bounds"]
    return (high / low) ** 0.5 if low > 0 else None


def _spectrum(row: Facts) -> Chart:
    values = row["spectrum"]
    points = [(100 * place / max(1, len(values) - 1), value) for place, value in enumerate(values)]
    series = [Series("filters", points)]
    return Chart(
        row["name"],
        "",
        "% of directions",
        "squared value",
        series,
        marks=[Mark("orthogonal", y=1.0)],
        small=True,
    )


def _orthogonality_table(rows: Sequence[Facts], stretch: Sequence[float | None]) -> Table:
    columns = [
        "layer",
        "filters",
        "numbers each",
        "coherence",
        "least",
        "overlap",
        "frame, low",
        "frame, high",
        "stretch",
        "zero filters",
    ]
    cells = [
        [
            row["name"],
            count(row["filters"]),
            count(row["length"]),
            said(row["coherence"]),
            said(row["least_coherence"]),
            said(row["overlap"] / max(1, row["filters"] - row["zero_filters"])),
            *(said(bound) for bound in row["frame_bounds"]),
            said(factor),
            count(row["zero_filters"]),
        ]
        for row, factor in zip(rows, stretch, strict=True)
    ]
    return Table(columns, cells, align="l" + "r" * (len(columns) - 1))


def show_prior(facts: Facts) -> list[Any]:
    """The prior of the active region now and at initialisation."""
    rows = facts["layers"]
    names = [row["layer"] for row in rows]
    now = along("now", names, [row["quantiles"][2] for row in rows], "median", kind="dots")
    band = [(row["quantiles"][1], row["quantiles"][3]) for row in rows]
    series = [
        Series(now.name, now.points, band=band, kind="dots", notes=now.notes),
        along("He's start", names, [row["he"] for row in rows], "He", colour="two"),
        along("Xavier's start", names, [row["xavier"] for row in rows], "Xavier", colour="light"),
    ]
    about = "Median over filters, whiskers to the tenth and the ninetieth percent."
    chart = layer_chart(
        "Prior of the active region", about, "prior", names, series, y_range=(0.0, 1.02)
    )
    columns = ["layer", "filters", "least", "median", "most", "He", "Xavier"]
    cells = [
        [
            row["layer"],
            count(row["filters"]),
            *(said(row["quantiles"][i]) for i in (0, 2, 4)),
            said(row["he"]),
            said(row["xavier"]),
        ]
        for row in rows
    ]
    table = Folded(f"All {len(rows)} layers in a table", [Table(columns, cells, align="lrrrrrr")])
    left_out = facts.get("left_out") or []
    return [
        Text([PRIOR]),
        chart,
        table,
        *[Text([f"Left out, because no unit follows: {join(left_out)}."])] * bool(left_out),
    ]


PRIOR = (
    "A max-affine layer is a mixture of Gaussians whose components are regions; without having seen an input, a unit's "
    "active region has the probability σ(|a|²/2 + b), with a and b its weights and offset. At 1/2 nothing is decided "
    "beforehand; near 0 or 1 the unit is decided by its size and offset more than by inputs. Norms after the layer are "
    "not counted."
)

SHOWN = {"pairing": show_pairing, "orthogonality": show_orthogonality, "prior": show_prior}
