"""Sections of a diagnosis about the map a network is.

Reconstructions, templates, regions, kernel.
"""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from gatewise.report.charts import Cell, Chart, Panels, Picture, Regions, Series, Table
from gatewise.report.diagnosis.layer_charts import percent, said
from gatewise.report.diagnosis.pictures import pixels_of
from gatewise.report.sheet import Folded, Text
from gatewise.words import count, number

Facts = Mapping[str, Any]
IN_A_ROW = 6  # pictures
SIDE = 108  # pixels of the page that a picture is about as wide as
KEPT = {
    "input": "the image",
    "crelu": "both phases",
    "relu": "positive phase",
    "crelu_pooled": "both phases, pooled",
    "relu_pooled": "positive phase, pooled",
    "own": "its own unit",
    "own_pooled": "its own unit, pooled",
    "random": "random filters, both phases",
}


def show_reconstruction(facts: Facts) -> list[Any]:
    """Images beside what comes back, and the ratios."""
    items: list[Any] = [Text([RECONSTRUCTION])]
    for place, images in enumerate(facts.get("pictures") or []):
        names = [name for name in images if name in KEPT]
        if len(names) > IN_A_ROW:
            names.remove(
                "relu"
            )  # what pooling leaves of it is there, and all of it is in the table
        shown = [_picture(KEPT[name], images[name], _missing(facts, name, place)) for name in names]
        items.append(Panels(f"Image {place + 1}", "", shown))
    keys = [name for name in KEPT if name in facts["per_image"]]
    rows = [
        [str(place + 1), *(said(facts["per_image"][key][place]) for key in keys)]
        for place in range(facts["images"])
    ]
    about = f"Share of the image that is lost, |x − x'| / |x|, behind layer {facts['layer']}"
    items.append(
        Table(
            ["image", *(KEPT[key] for key in keys)],
            rows,
            caption=about,
            align="l" + "r" * len(keys),
        )
    )
    known, unknown = count(round(facts["equations"])), count(facts["unknowns"])
    pooled = " after pooling" if facts["pooled"] else ""
    items.append(
        Text([f"{known} responses{pooled} are known for {unknown} pixel values.{_chance(facts)}"])
    )
    return items + (_bound(facts["bound"]) if facts.get("bound") else [])


def _chance(facts: Facts) -> str:
    share = facts.get("by_chance")
    return f" A random projection on as many numbers would lose {share:.1%}." if share else ""


def _bound(facts: Facts) -> list[Any]:
    """Theorem 2.2: eigenvalues, bound and ratio of every image."""
    rows = [
        [
            str(place + 1),
            count(each["shifts"]),
            said(each["held"], percent),
            said(each["least"]),
            said(each["largest"]),
            said(each["bound"]),
            said(each["ratio"]),
        ]
        for place, each in enumerate(facts["images"])
    ]
    columns = ["image", "shifts", "of the image", "least eigenvalue", "largest", "bound", "lost"]
    down, across = facts["region"]
    high, wide = facts["side"]
    caption = f"The bound on what both phases lose in pooling regions of {down} x {across}, on {high} x {wide} pixels"
    return [Table(columns, rows, caption=caption, align="lrrrrrr"), Text([BOUND])]


BOUND = (
    "Theorem 2.2 is about images that are made of shifts of the filters, one in each pooling region: here the shift "
    "that responds most, so that each row is about the part of the image that those shifts hold. The bound is "
    "√((largest − least) / least), with the least eigenvalue of the shifts that are there and the largest of those "
    "that won the pooling; it is empty where a phase that would be needed is not active."
)


RECONSTRUCTION = (
    "The features of the first convolution are taken back to the image of least length that has the same responses. "
    "Both phases of a response (CReLU) say what it was; the positive phase alone (ReLU) says it only where it was "
    "positive, and max-pooling only where it won. The model's own unit, where it is another, says it where no other "
    "response has the same feature."
)


def _missing(facts: Facts, name: str, place: int) -> str:
    return f"{facts['per_image'][name][place]:.1%} lost" if name in facts["per_image"] else ""


def _picture(title: str, packed: Facts, about: str = "") -> Picture:
    pixels = pixels_of(packed)
    return Picture(title, pixels, scale=max(1, round(SIDE / pixels.shape[1])), about=about)


def show_templates(facts: Facts) -> list[Any]:
    """Inputs beside the templates of some outputs, sizes in a table."""
    items: list[Any] = [Text([TEMPLATES])]
    if facts["soft"]:
        items.append(
            Text(
                [
                    "The network has soft gates: the map is that with all gates held as they are at the input."
                ]
            )
        )
    for place, each in enumerate(facts.get("pictures") or []):
        shown = [_picture("input", each["input"], f"largest output: {each['largest']}")]
        for output, packed, size, offset in zip(
            facts["outputs"],
            each["templates"],
            facts["norms"][place],
            facts["b"][place],
            strict=True,
        ):
            shown.append(
                _picture(f"output {output}", packed, f"|A| {number(size)}, b {number(offset)}")
            )
        items.append(Panels(f"Input {place + 1}", "", shown))
    rows = [
        [f"{place + 1}", f"{output}", said(size), said(offset)]
        for place, (sizes, offsets) in enumerate(zip(facts["norms"], facts["b"], strict=True))
        for output, size, offset in zip(facts["outputs"], sizes, offsets, strict=True)
    ]
    table = Table(["input", "output", "|A|", "b"], rows, align="llrr")
    return [*items, Folded("The sizes of all maps in a table", [table])]


TEMPLATES = (
    "Where an input is, the network is f(x) = A x + b, and each row of A is a template that the input is compared "
    "with. Grey is 0; each template is scaled by itself. The outputs shown are those that are largest on average."
)


def show_partition(facts: Facts) -> list[Any]:
    """The regions of the window, or how soft the gates are in it."""
    return _regions(facts) if facts["exact"] else _softness(facts)


def _regions(facts: Facts) -> list[Any]:
    drawn = regions_of(facts, facts, f"{count(facts['count'])} regions", window_words(facts))
    least, middle, most = facts["areas"]
    rows = [
        ["regions", Cell(count(facts["count"]), value=facts["count"])],
        ["pairs of neighbours", Cell(count(facts["neighbours"]), value=facts["neighbours"])],
        ["smallest area", said(least)],
        ["median area", said(middle)],
        ["largest area", said(most)],
    ]
    return [Text([PARTITION]), drawn, Table(["", "in the window"], rows, align="lr")]


def regions_of(frame: Facts, plane: Facts, title: str, about: str) -> Regions:
    """The regions in ``frame`` in the window of ``plane``."""
    vertices = [(u, v) for u, v in frame["vertices"]]
    polygons = [vertices[a:b] for a, b in itertools.pairwise(frame["starts"])]
    ends = [(u, v) for u, v in frame["boundary"]]
    lines = list(zip(ends[::2], ends[1::2], strict=True))
    marks = [(f"input {place + 1}", (u, v)) for place, (u, v) in enumerate(plane["marks"])]
    low, high = ((plane[name][0], plane[name][1]) for name in ("low", "high"))
    return Regions(title, about, polygons, lines, marks, low, high, "decision boundary")


def window_words(facts: Facts) -> str:
    """Which part of the plane is shown."""
    share = facts["window_share"]
    where = "The plane through three inputs"
    where = (
        where
        if share == 1
        else f"{where}, close around their mean: 1/{1 / share:,.0f} of the usual width"
    )
    return f"{where}. The window is {number(facts['high'][0] - facts['low'][0])} wide, in the units of the input."


PARTITION = (
    "In each region every unit keeps to one of its pieces, so that the network is one affine map there; the regions "
    "are exact. Fine regions are where the network bends most."
)


def _softness(facts: Facts) -> list[Any]:
    grid = np.asarray(facts["entropy"], dtype=np.float64)[::-1]
    pixels = np.clip(np.rint(255 * grid), 0, 255).astype(np.uint8)
    about = f"White is undecided. From {facts['least']:.2f} to {facts['most']:.2f}, mean {facts['mean']:.2f}."
    title = "Entropy of the gates on the plane through three inputs"
    picture = Picture(title, pixels, scale=max(1, 480 // len(pixels)), about=about)
    return [Text([SOFT]), picture]


SOFT = (
    "Soft gates are never quite on or off, so the plane has no regions: it has places where the gates are more or less "
    "undecided."
)


def show_kernel(facts: Facts) -> list[Any]:
    """The spectrum, largest first, and its share."""
    values = sorted(facts["eigenvalues"], reverse=True)
    total = sum(values) or 1.0
    shares = [(place + 1, value / total) for place, value in enumerate(values)]
    sums = [
        (place + 1, part)
        for place, part in enumerate(itertools.accumulate(value / total for value in values))
    ]
    own = Series("share", [point for point in shares if point[1] > 0], kind="dots")
    equal = Series("all equal", [(1, 1 / len(values)), (len(values), 1.0)], colour="light")
    charts = [
        Chart(
            "Eigenvalues",
            "As shares of their sum, the largest first.",
            "eigenvalue",
            "share",
            [own],
            y_log=True,
        ),
        Chart(
            "Held by the first eigenvalues",
            "The straighter, the better conditioned.",
            "eigenvalues",
            "share of the sum",
            [Series("network", sums), equal],
            y_range=(0.0, 1.02),
        ),
    ]
    rows = [
        ["inputs", Cell(count(facts["inputs"]), value=facts["inputs"])],
        ["effective rank", said(facts["effective_rank"])],
        ["share of the largest", said(facts["largest_share"], percent)],
        [
            "condition number",
            Cell(number(facts["condition"]) or "beyond rounding", value=facts["condition"]),
        ],
    ]
    return [Text([KERNEL]), *charts, Table(["", "tangent kernel"], rows, align="lr")]


KERNEL = (
    "Gradient descent learns an eigen-direction of the tangent kernel at the speed of its eigenvalue: one dominant "
    "eigenvalue means that most differences between inputs are learnt slowly. Where the model has several outputs, the "
    "kernel is that of one random mixture of them."
)

SHOWN = {
    "reconstruction": show_reconstruction,
    "templates": show_templates,
    "partition": show_partition,
    "kernel": show_kernel,
}
