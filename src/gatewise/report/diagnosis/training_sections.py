"""Sections of a diagnosis about checkpoints: gates that changed, and regions over time."""

from typing import Any

from gatewise.report.charts import Film, Picture, Series
from gatewise.report.diagnosis.fact_tables import folded_table, shown
from gatewise.report.diagnosis.layer_charts import (
    Facts,
    column,
    layer_chart,
    layer_series,
    percent,
)
from gatewise.report.diagnosis.map_sections import entropy_pixels, regions_of, window_words
from gatewise.report.sheet import Text
from gatewise.words import count

FRAME_WIDTH = 240  # pixels of the page


def show_flips(facts: Facts) -> list[Any]:
    """Return changed gates by step, by activation in the last step, and all in a table."""
    steps = facts["steps"]
    names = [f"{step['from']} to {step['to']}" for step in steps]
    items: list[Any] = []
    if len(steps) > 1:
        about = "All gates of the network, from one checkpoint to the next."
        items.append(_flips_chart("Gates that changed", about, names, steps, "step"))
    sites = steps[-1]["sites"]
    places = column(sites, "site")
    title = "By activation, in the last step"
    items.append(_flips_chart(title, names[-1], places, sites, "layer"))
    columns: dict[str, Any] = {"after layer": "site", "channels": "channels"}
    for name in names:
        columns[name] = shown(name, percent)
    rows = []
    for place, site in enumerate(sites):
        changed = (step["sites"][place]["flipped"] for step in steps)
        rows.append({**site, **dict(zip(names, changed, strict=True))})
    return [*items, folded_table(rows, columns, "activations"), *_thinned(facts, len(steps) + 1)]


def _flips_chart(title: str, about: str, names: list[str], rows: list[Facts], x_label: str) -> Any:
    """The percentage of gates that changed, next to that of independent gates."""
    changed = [100 * row["flipped"] for row in rows]
    expected = [100 * row["chance"] for row in rows]
    series: list[Series] = [
        layer_series("changed", names, changed, "%", kind="dots"),
        layer_series("independent gates", names, expected, "independent gates %", colour="light"),
    ]
    top = 1.08 * max(*changed, *expected, 1.0)
    return layer_chart(
        title, about, "% of gates", names, series, x_label=x_label, y_range=(0.0, top)
    )


def show_film(facts: Facts) -> list[Any]:
    """Return the plane at every checkpoint, and the number of regions over time."""
    names = facts["names"]
    key, label = ("count", "regions") if facts["exact"] else ("mean", "entropy, 0 to 1")
    values = column(facts["frames"], key)
    series = [layer_series(label, names, values, label)]
    chart = layer_chart(label.capitalize(), "", label, names, series, x_label="checkpoint")
    frames: list[Any] = []
    for name, frame in zip(names, facts["frames"], strict=True):
        if facts["exact"]:
            frames.append(regions_of(frame, facts, name, f"{count(frame['count'])} regions"))
        else:
            pixels = entropy_pixels(frame)
            scale = max(1, FRAME_WIDTH // len(pixels))
            frames.append(Picture(name, pixels, scale=scale, about=f"mean {frame['mean']:.2f}"))
    if facts["exact"]:
        film = Film("The plane at each checkpoint", window_words(facts), frames)
    else:
        film = Film("Entropy of the gates at each checkpoint", "White is undecided.", frames)
    return [film, chart, *_thinned(facts, len(names))]


def _thinned(facts: Facts, shown: int) -> list[Text]:
    """A line on how many checkpoints were left out, if any."""
    if facts["given"] <= shown:
        return []
    return [Text([f"{shown} of {facts['given']} checkpoints are shown, from first to last."])]


SHOWN = {"flips": show_flips, "film": show_film}
