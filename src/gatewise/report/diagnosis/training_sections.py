"""Sections of a diagnosis about checkpoints.

Gates that changed sides, and regions from moment to moment.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gatewise.report.charts import Film, Picture, Series, Table
from gatewise.report.diagnosis.layer_charts import along, layer_chart, percent, said
from gatewise.report.diagnosis.map_sections import regions_of, window_words
from gatewise.report.sheet import Folded, Text
from gatewise.words import count

Facts = Mapping[str, Any]


def show_flips(facts: Facts) -> list[Any]:
    """Flips over the steps, those of the last step over the sites, and all in a table."""
    steps = facts["steps"]
    items: list[Any] = [Text([FLIPS])]
    names = [f"{step['from']} to {step['to']}" for step in steps]
    if len(steps) > 1:
        items.append(
            layer_chart(
                "Gates that changed sides",
                "All gates of the network, from one checkpoint to the next.",
                "% of gates",
                names,
                _both(
                    names,
                    [100 * step["flipped"] for step in steps],
                    [100 * step["chance"] for step in steps],
                ),
                x_label="step",
                y_range=(
                    0.0,
                    108 * max(max(step["flipped"], step["chance"], 0.01) for step in steps),
                ),
            )
        )
    sites = steps[-1]["sites"]
    places = [each["site"] for each in sites]
    own, random = ([100 * each[key] for each in sites] for key in ("flipped", "chance"))
    items.append(
        layer_chart(
            "By site, in the last step",
            names[-1],
            "% of gates",
            places,
            _both(places, own, random),
            x_label="site",
            y_range=(0.0, 1.08 * max(*own, *random, 1.0)),
        )
    )
    rows = [
        [
            site,
            count(each["channels"]),
            *(said(step["sites"][place]["flipped"], percent) for step in steps),
        ]
        for place, (site, each) in enumerate(zip(places, sites, strict=True))
    ]
    table = Table(["site", "channels", *names], rows, align="lr" + "r" * len(steps))
    return [
        *items,
        Folded(f"All {len(rows)} sites in a table", [table]),
        *_thinned(facts, len(steps) + 1),
    ]


FLIPS = (
    "The same inputs are given to the network at two checkpoints; a gate that is on at one and off at the other has "
    "changed sides. By chance is what gates that are on as often, and know nothing of each other, would do. A network "
    "whose gates no longer change goes on learning as a linear one would, within its regions."
)


def _both(names: list[str], own: list[float], random: list[float]) -> list[Series]:
    return [
        along("changed sides", names, own, "%", kind="dots"),
        along("by chance", names, random, "by chance %", colour="light"),
    ]


def show_film(facts: Facts) -> list[Any]:
    """The plane at every moment, and the number of regions over them."""
    names, frames = facts["names"], facts["frames"]
    key, label = ("count", "regions") if facts["exact"] else ("mean", "entropy, of 1")
    values = [frame[key] for frame in frames]
    over = layer_chart(
        label.capitalize(),
        "",
        label,
        names,
        [along(label, names, values, label)],
        x_label="checkpoint",
    )
    if facts["exact"]:
        shown = [
            regions_of(frame, facts, name, f"{count(frame['count'])} regions")
            for name, frame in zip(names, frames, strict=True)
        ]
        film = Film("The plane at each checkpoint", window_words(facts), shown)
    else:
        film = Film(
            "Entropy of the gates at each checkpoint",
            "White is undecided.",
            [_soft(frame, name) for name, frame in zip(names, frames, strict=True)],
        )
    return [Text([FILM]), film, over, *_thinned(facts, len(names))]


FILM = "One window of the plane through three inputs, at each checkpoint: how the network's pieces move while it learns."


def _soft(frame: Facts, name: str) -> Picture:
    pixels = np.clip(
        np.rint(255 * np.asarray(frame["entropy"], dtype=np.float64)[::-1]), 0, 255
    ).astype(np.uint8)
    return Picture(
        name, pixels, scale=max(1, 240 // len(pixels)), about=f"mean {frame['mean']:.2f}"
    )


def _thinned(facts: Facts, shown: int) -> list[Text]:
    left = facts["given"] - shown
    return [
        Text(
            [f"{shown} of {facts['given']} checkpoints are looked at, from the first to the last."]
        )
    ] * (left > 0)


SHOWN = {"flips": show_flips, "film": show_film}
