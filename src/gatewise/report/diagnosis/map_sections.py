"""Sections of a diagnosis about the function of a network.

Reconstructed images, local linear maps, linear regions and the tangent kernel.
"""

import itertools
from typing import Any

import numpy as np

from gatewise.report.charts import Chart, Panels, Picture, Regions, Series
from gatewise.report.diagnosis.fact_tables import fact_table, numbers_table, shown
from gatewise.report.diagnosis.layer_charts import Facts, percent, value_cell
from gatewise.report.diagnosis.pictures import pixels_of
from gatewise.report.sheet import Folded, Text
from gatewise.words import count, number

MOST_IN_A_ROW = 6  # pictures
PICTURE_WIDTH = 108  # pixels of the page, about
PLANE_WIDTH = 480  # pixels of the page
BOUND_COLUMNS = {
    "image": "image",
    "shifts": "shifts",
    "of the image": shown("held", percent),
    "smallest eigenvalue": "least",
    "largest": "largest",
    "bound": "bound",
    "error": "ratio",
}
RECONSTRUCTED_FROM = {
    "input": "the image",
    "crelu": "both signs (CReLU)",
    "relu": "positive part (ReLU)",
    "crelu_pooled": "both signs, pooled",
    "relu_pooled": "positive part, pooled",
    "own": "its own unit",
    "own_pooled": "its own unit, pooled",
    "random": "random filters, both signs",
}

BOUND = (
    "Theorem 2.2 is about images that are sums of shifted filters, one in each pooling region. "
    "Here that is the shift with the largest response, so each row is about the part of the image "
    "that these shifts explain. The bound is √((largest − smallest) / smallest): the smallest "
    "eigenvalue of the shifts that are present, and the largest of those that won the pooling. "
    "It is empty if a bias hides a shift that it needs, or no region holds it."
)
SOFT_TEMPLATES = (
    "The network has soft gates: A and b are those of the network with all gates held at their "
    "values for the input."
)
PARTITION = (
    "In each region no activation function changes its linear piece, so the network is one linear "
    "function there. The regions are exact. Many small regions mean that the network bends a lot."
)
SOFT = (
    "Soft activations have no exact linear regions. "
    "The picture shows how undecided their gates are at each place."
)


def show_reconstruction(facts: Facts) -> list[Any]:
    """Return images next to what can be rebuilt from features, and how far that is off."""
    items: list[Any] = []
    errors = facts["per_image"]
    for place, images in enumerate(facts.get("pictures") or []):
        names = [name for name in images if name in RECONSTRUCTED_FROM]
        if len(names) > MOST_IN_A_ROW:
            names.remove("relu")  # the table has it, and its pooled form is shown
        pictures = []
        for name in names:
            about = f"error {errors[name][place]:.1%}" if name in errors else ""
            pictures.append(_picture(RECONSTRUCTED_FROM[name], images[name], about))
        items.append(Panels(f"Image {place + 1}", "", pictures))
    columns = {"image": "image"}
    columns |= {title: key for key, title in RECONSTRUCTED_FROM.items() if key in errors}
    rows = []
    for place in range(facts["images"]):
        rows.append({"image": place + 1, **{key: errors[key][place] for key in errors}})
    caption = (
        f"Error |x − x'| / |x| of the image rebuilt after layer {facts['layer']}. These are norms "
        "over the pixels that the layer reads, not shares of the pixels."
    )
    items.append(fact_table(rows, columns, caption))
    items.append(Text([_equations(facts)]))
    if facts.get("bound"):
        items += _bound(facts["bound"])
    return items


def _equations(facts: Facts) -> str:
    """How many responses are known for how many pixels."""
    known = count(round(facts["equations"]))
    pooled = " after pooling" if facts["pooled"] else ""
    words = f"{known} responses{pooled} are known for {count(facts['unknowns'])} pixel values."
    if facts.get("by_chance"):
        chance = facts["by_chance"]
        words += f" A random projection to as many numbers would have an error of {chance:.1%}."
    return words


def _bound(facts: Facts) -> list[Any]:
    """Theorem 2.2: eigenvalues, bound and error of every image."""
    rows = [{"image": place, **image} for place, image in enumerate(facts["images"], 1)]
    down, across = facts["region"]
    height, width = facts["side"]
    caption = (
        f"Bound on the error with both signs in pooling regions of {down} x {across}, "
        f"on {height} x {width} pixels"
    )
    return [fact_table(rows, BOUND_COLUMNS, caption), Text([BOUND])]


def _picture(title: str, packed: Facts, about: str = "") -> Picture:
    """A packed picture at about the usual width on the page."""
    pixels = pixels_of(packed)
    scale = max(1, round(PICTURE_WIDTH / pixels.shape[1]))
    return Picture(title, pixels, scale=scale, about=about)


def show_templates(facts: Facts) -> list[Any]:
    """Return inputs next to the rows of A for some outputs, and the sizes of A and b."""
    items: list[Any] = [Text([SOFT_TEMPLATES])] if facts["soft"] else []
    rows = []
    pictures = facts.get("pictures") or []
    for place, (sizes, offsets) in enumerate(zip(facts["norms"], facts["b"], strict=True)):
        panels = []
        if place < len(pictures):
            about = f"largest output: {pictures[place]['largest']}"
            panels.append(_picture("input", pictures[place]["input"], about))
        outputs = zip(facts["outputs"], sizes, offsets, strict=True)
        for number_of_output, (output, size, offset) in enumerate(outputs):
            rows.append({"input": place + 1, "output": str(output), "|A|": size, "b": offset})
            if panels:
                packed = pictures[place]["templates"][number_of_output]
                about = f"|A| {number(size)}, b {number(offset)}"
                panels.append(_picture(f"output {output}", packed, about))
        if panels:
            items.append(Panels(f"Input {place + 1}", "", panels))
    table = fact_table(rows, {name: name for name in ("input", "output", "|A|", "b")})
    return [*items, Folded("The sizes of A and b in a table", [table])]


def show_partition(facts: Facts) -> list[Any]:
    """Return the linear regions of a window or, for soft gates, their entropy."""
    if not facts["exact"]:
        pixels = entropy_pixels(facts)
        about = (
            f"White is undecided. From {facts['least']:.2f} to {facts['most']:.2f}, "
            f"mean {facts['mean']:.2f}."
        )
        title = "Entropy of the gates on the plane through three inputs"
        scale = max(1, PLANE_WIDTH // len(pixels))
        return [Text([SOFT]), Picture(title, pixels, scale=scale, about=about)]
    smallest, middle, largest = facts["areas"]
    numbers = {
        "regions": facts["count"],
        "pairs of neighbours": facts["neighbours"],
        "smallest area": smallest,
        "median area": middle,
        "largest area": largest,
    }
    title = f"{count(facts['count'])} regions"
    return [
        Text([PARTITION]),
        regions_of(facts, facts, title, window_words(facts)),
        numbers_table(numbers, "in the window"),
    ]


def regions_of(frame: Facts, plane: Facts, title: str, about: str) -> Regions:
    """Return the regions in ``frame`` as a record.

    Args:
        frame: Vertices, where each polygon starts, and the decision boundary.
        plane: The window and the inputs in it.
        title: The heading.
        about: A sentence on how to read it.
    """
    vertices = [(u, v) for u, v in frame["vertices"]]
    polygons = [vertices[start:end] for start, end in itertools.pairwise(frame["starts"])]
    ends = [(u, v) for u, v in frame["boundary"]]
    marks = []
    for place, (u, v) in enumerate(plane["marks"]):
        marks.append((f"input {place + 1}", (u, v)))
    return Regions(
        title,
        about,
        polygons,
        lines=list(zip(ends[::2], ends[1::2], strict=True)),
        marks=marks,
        low=(plane["low"][0], plane["low"][1]),
        high=(plane["high"][0], plane["high"][1]),
        line_name="decision boundary",
    )


def window_words(facts: Facts) -> str:
    """Return which part of the plane is shown."""
    where = "The plane through three inputs"
    if facts["window_share"] != 1:
        zoom = f"1/{1 / facts['window_share']:,.0f}"
        where += f", in a small window around their mean: {zoom} of the usual width"
    width = number(facts["high"][0] - facts["low"][0])
    return f"{where}. The window is {width} wide, in the units of the input."


def entropy_pixels(facts: Facts) -> np.ndarray:
    """Return the entropy of gates on a plane, from 0 to 1, as grey pixels with y upwards."""
    grid = np.asarray(facts["entropy"], dtype=np.float64)[::-1]
    return np.clip(np.rint(255 * grid), 0, 255).astype(np.uint8)


def show_kernel(facts: Facts) -> list[Any]:
    """Return the spectrum of the tangent kernel, and summary numbers."""
    values = sorted(facts["eigenvalues"], reverse=True)
    total = sum(values) or 1.0
    shares = [(place, value / total) for place, value in enumerate(values, 1) if value > 0]
    numbers = {
        "inputs": facts["inputs"],
        "effective rank": facts["effective_rank"],
        "share of the largest": value_cell(facts["largest_share"], percent),
        "condition number": facts["condition"] or "beyond rounding",
    }
    return [
        Chart(
            "Eigenvalues",
            "As a share of their sum, the largest first.",
            "eigenvalue",
            "share",
            [Series("share", shares, kind="dots")],
            y_log=True,
        ),
        numbers_table(numbers, "tangent kernel"),
    ]


SHOWN = {
    "reconstruction": show_reconstruction,
    "templates": show_templates,
    "partition": show_partition,
    "kernel": show_kernel,
}
