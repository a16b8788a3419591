"""The top of the page: the input check, the network by its layers, and the findings.

The network is drawn once. Radio buttons choose the number that colours it, so that the page needs
no script for it. Every number comes from the record of the diagnosis.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gatewise.report.diagnosis.layer_charts import Facts
from gatewise.words import count, percentage, signed

WIDEST = 92.0  # % of the drawing: the width of the layer with the most channels
SMALLEST = 0.8
SUSPECT = "suspect"
WARNING = "\N{WARNING SIGN}"
TIMES = "\N{MULTIPLICATION SIGN}"
DOTS = {"strong": 3, "fair": 2, "weak": 1}


@dataclass(frozen=True)
class View:
    """One number by which the layers can be coloured.

    Args:
        key: The name in the page's markup.
        title: On the button.
        about: What the number is.
        value: The number of a row, from 0 to 1 after division by the largest; None if unknown.
        text: The number of a row in words.
        low: The meaning of the lightest colour.
        high: The meaning of the darkest, with the largest number.
        bad: Whether a large number is bad.
        reads_inputs: Whether it depends on the inputs.
        least: The smallest number that gets the darkest colour.
    """

    key: str
    title: str
    about: str
    value: Callable[[Facts], float | None]
    text: Callable[[Facts], str]
    low: str
    high: Callable[[float], str]
    bad: bool = False
    reads_inputs: bool = True
    least: float = 0.0


def _opposite(row: Facts) -> float | None:
    if row.get("opposite") is None:
        return None
    return max(0.0, row["opposite_random"] - row["opposite"])


def _overlap(row: Facts) -> float | None:
    """Return how alike the gates of two inputs are: 0 as unrelated ones, 1 the same."""
    if row.get("overlap") is None or not 0 < row["on_rate"] < 1:
        return None
    return max(0.0, (row["overlap"] - row["chance"]) / (row["on_rate"] - row["chance"]))


VIEWS = (
    View(
        "pair",
        "Opposite pairs",
        "Correlation with the most opposite filter (random filters)",
        _opposite,
        lambda row: f"{signed(row['opposite'])} ({signed(row['opposite_random'])})",
        "as random",
        lambda most: f"{most:.2f} more",
        reads_inputs=False,
        least=0.1,
    ),
    View(
        "dead",
        "Dead channels",
        "Channels with a constant output and no slope",
        lambda row: None if "dead" not in row else row["dead"] / max(1, row["channels"]),
        lambda row: f"{row['dead']:,} of {row['channels']:,}" if row["dead"] else "0",
        "none",
        lambda most: f"{percentage(most)} or more",
        bad=True,
        least=0.3,
    ),
    View(
        "overlap",
        "Gate overlap",
        "How alike the open gates of two inputs are (1: the same)",
        _overlap,
        lambda row: f"{_overlap(row):.2f}",
        "0",
        lambda most: f"{most:.2f}",
        least=0.1,
    ),
    View(
        "entropy",
        "Entropy",
        "What a gate tells about the input, in bits",
        lambda row: row.get("entropy"),
        lambda row: f"{row['entropy']:.2f} bit",
        "0",
        lambda most: f"{most:.2g} bit",
        least=1.0,
    ),
    View(
        "image",
        "Image error",
        "Error of an image rebuilt from ReLU, |x − x′| / |x|; first convolution only",
        lambda row: row.get("image_error"),
        lambda row: percentage(row["image_error"]),
        "0 %",
        lambda most: f"{percentage(most)}",
        bad=True,
        least=1.0,
    ),
    View(
        "compute",
        "Compute",
        "Share of all operations",
        lambda row: row["operations_share"],
        lambda row: percentage(row["operations_share"]),
        "0 %",
        lambda most: percentage(most),
        reads_inputs=False,
    ),
)


@dataclass(frozen=True)
class LayerMark:
    """One number of one row.

    Args:
        key: The view.
        text: The number in words; a dash if it is unknown.
        opacity: How dark the block is, from 0 to 1; None if the number is unknown.
    """

    key: str
    text: str
    opacity: float | None


@dataclass(frozen=True)
class Layer:
    """One row of the drawing.

    Args:
        module: The part of the layer's name before its last word.
        name: The last word.
        first: Whether the layer is the first of its module.
        title: Its size, for a tooltip.
        pool: The pooling before it, or an empty text.
        left: Where the block starts, in % of the drawing.
        width: The width of the block, by the number of channels.
        marks: Its numbers, one for each view.
        flags: The numbers of the findings about it.
        facts: Names and values, for the panel below the drawing.
    """

    module: str
    name: str
    first: bool
    title: str
    pool: str
    left: float
    width: float
    marks: Sequence[LayerMark]
    flags: Sequence[int]
    facts: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Shown:
    """A view with its scale: ``high`` is the meaning of the darkest colour."""

    view: View
    title: str
    high: str


@dataclass(frozen=True)
class FindingCard:
    """One piece of advice.

    Args:
        number: Its number on the page.
        advice: The record.
        dots: How many of three dots are filled: the strength of the evidence.
        link: Where its numbers are on the page.
    """

    number: int
    advice: Facts
    dots: int
    link: str


@dataclass(frozen=True)
class Overview:
    """The top of the page.

    Args:
        look: ``up``, ``down`` or ``mute``, by the result of the input check.
        verdict: The result of the input check in a few words.
        check: The sentences after it.
        views: The numbers by which the layers can be coloured.
        layers: The rows of the drawing.
        source: What goes into the network.
        counts: What was counted, with the calls that act on it.
        heading: The heading of the advice.
        findings: The advice.
        held_back: Titles of the advice that the inputs do not support.
        fine: What was looked for and is small or absent.
        others: More advice, in one line each.
    """

    look: str
    verdict: str
    check: Sequence[str]
    views: Sequence[Shown]
    layers: Sequence[Layer]
    source: str
    counts: Sequence[Facts]
    heading: str
    findings: Sequence[FindingCard]
    held_back: Sequence[str]
    fine: str
    others: Sequence[str]


def overview(diagnosis: Mapping[str, Any], links: Mapping[str, str]) -> Overview:
    """Return the top of the page.

    Args:
        diagnosis: The record of the diagnosis.
        links: Where the section of each question is.
    """
    suspect = diagnosis["input_check"]["state"] == SUSPECT
    look, verdict, check = _check(diagnosis)
    cards = []
    for place, advice in enumerate(diagnosis["advice"], 1):
        link = links.get(advice["question"], "")
        cards.append(FindingCard(place, advice, DOTS.get(advice["strength"], 0), link))
    rows = diagnosis["layers"]
    shown = []
    scales = {}
    for view in VIEWS:
        values = [view.value(row) for row in rows]
        known = [value for value in values if value is not None]
        if known:
            most = max([*known, view.least])
            scales[view.key] = most
            warned = f" {WARNING}" if suspect and view.reads_inputs else ""
            shown.append(Shown(view, f"{view.title}{warned}", view.high(most)))
    shape = diagnosis["data"]["shapes"][0] if diagnosis["data"]["shapes"] else []
    return Overview(
        look=look,
        verdict=verdict,
        check=check,
        views=shown,
        layers=_layers(rows, shown, scales, diagnosis["advice"]) if shown else [],
        source=f"input {f' {TIMES} '.join(map(str, shape))}",
        counts=diagnosis["findings"],
        heading="What still holds" if suspect else "Advice",
        findings=cards,
        held_back=[advice["title"] for advice in diagnosis["held_back"]],
        fine=", ".join(diagnosis["nothing_to_fix"]),
        others=[
            f"{item['title']}: {item['effect']} {item['effect_of']}"
            for item in diagnosis["more_advice"]
        ],
    )


def _check(diagnosis: Mapping[str, Any]) -> tuple[str, str, list[str]]:
    """Return the look, the verdict and the sentences of the input check."""
    data = diagnosis["data"]
    check = diagnosis["input_check"]
    if not data["real"]:
        words = (
            "No data were given. The results about weights hold; those about gates, regions and "
            "images describe random inputs."
        )
        return "down", "Random inputs.", [words]
    known = data["preprocessing_known"]
    how = data["preprocessing"]
    prepared = f"Inputs: {how}." if how else ""
    options = "the options mean, std, scale, bgr and size, or transform"
    if check["state"] == SUSPECT:
        words = [
            check["line"].partition(": ")[2][:1].upper() + check["line"].partition(": ")[2][1:],
            prepared,
            "Check the range, the mean and the order of channels that the weights were trained "
            f"with, and state them with {options}.",
            f"Numbers that depend on the inputs are marked {WARNING} and should not be used. What "
            "is read from the weights still holds.",
        ]
        return "down", "The inputs are probably preprocessed wrongly.", [w for w in words if w]
    if not known:
        words = [
            prepared,
            check["line"],
            f"If the network was trained with another preprocessing, state it with {options}.",
        ]
        return "two", "Preprocessing not known.", [w for w in words if w]
    if check["state"] == "passed":
        return "up", "Input check passed.", [check["line"]]
    return "mute", "Inputs not checked:", [check["line"].removeprefix("Inputs not checked: ")]


def _layers(
    rows: Sequence[Facts],
    shown: Sequence[Shown],
    scales: Mapping[str, float],
    advice: Sequence[Facts],
) -> list[Layer]:
    """Return the rows of the drawing."""
    spans = _spans(rows)
    layers = []
    module_before = None
    for row, (left, width) in zip(rows, spans, strict=True):
        module, _, name = row["layer"].rpartition(".")
        marks = []
        for item in shown:
            value = item.view.value(row)
            if value is None:
                marks.append(LayerMark(item.view.key, "–", None))
            else:
                dark = 0.06 + 0.94 * min(1.0, value / max(scales[item.view.key], 1e-12))
                marks.append(LayerMark(item.view.key, item.view.text(row), round(dark, 3)))
        flags = []
        for place, entry in enumerate(advice, 1):
            if row["layer"] in entry["layers"]:
                flags.append(place)
        layers.append(
            Layer(
                module=f"{module}." if module else "",
                name=name,
                first=module != module_before,
                title=f"{row['layer']}: {_size(row)}",
                pool=row["pool"].replace(" x ", f" {TIMES} "),
                left=round(left, 2),
                width=round(width, 2),
                marks=marks,
                flags=flags,
                facts=_facts(row),
            )
        )
        module_before = module
    return layers


def _spans(rows: Sequence[Facts]) -> list[tuple[float, float]]:
    """Return left end and width of every block, with parallel layers next to each other."""
    groups: list[list[Facts]] = []
    for row in rows:
        if row["branch"] == 0:
            groups.append([])
        groups[-1].append(row)
    widest = max(sum(row["channels"] for row in group) for group in groups)
    spans = []
    for group in groups:
        widths = [max(SMALLEST, WIDEST * row["channels"] / max(1, widest)) for row in group]
        left = 50 - sum(widths) / 2
        for width in widths:
            spans.append((left, width))
            left += width
    return spans


def _size(row: Facts) -> str:
    """Return the size of a layer in words: ``64 filters of 3 × 3 on 3 channels``."""
    words = f"{count(row['channels'])} channels"
    weight = row["weight"]
    if weight and len(weight) == 4:
        words = f"{count(weight[0])} filters of {weight[2]} {TIMES} {weight[3]}"
        words += f" on {count(weight[1])} channels"
    if len(row["output"]) == 3:
        words += f", output {row['output'][1]} {TIMES} {row['output'][2]}"
    return f"{words}, then {row['unit']}"


def _facts(row: Facts) -> list[tuple[str, str]]:
    """Return what is known about a layer, for the panel below the drawing."""
    facts = [("on means", row["on"])]
    if "on_rate" in row:
        facts.append(("on", f"{percentage(row['on_rate'])} of the time"))
        facts.append(("dead", f"{row['dead']:,} of {row['channels']:,} channels"))
        facts.append(("always off, not dead", f"{row['always_off']:,}"))
        facts.append(("entropy", f"{row['entropy']:.2f} of 1 bit"))
    if row.get("opposite") is not None:
        random = signed(row["opposite_random"])
        facts.append(("most opposite filter", f"{signed(row['opposite'])} (random: {random})"))
    if _overlap(row) is not None:
        facts.append(("gate overlap", f"{_overlap(row):.2f}"))
    share = percentage(row["operations_share"])
    facts.append(("compute", f"{share}, {row['parameters']:,} parameters"))
    return facts
