"""Panels of an experiment as one image, drawn with the chart model of `gatewise.report`."""

import math
from collections.abc import Sequence

import numpy as np

from gatewise.report import CATEGORIES, SOLID, Chart, Panels, Series, picture_file, size_colours
from gatewise.report import Picture as ChartPicture
from gatewise_papers.common.records import Line, Numbers, Panel, Picture

THEORY = 1  # the line style of a closed form: dashed
MEASURED = (0, 2, 3)  # line styles of measurements, when there are more lines than colours


def svg(title: str, panels: Sequence[Panel | Picture]) -> bytes:
    """Return the panels side by side as an SVG file. The same panels give the same bytes."""
    items = [_picture(panel) if isinstance(panel, Picture) else _chart(panel) for panel in panels]
    return picture_file(Panels(title, "", items))


def _picture(picture: Picture) -> ChartPicture:
    pixels = np.clip(np.asarray(picture.pixels, dtype=np.float64), 0.0, 1.0)
    return ChartPicture(picture.title, np.rint(255 * pixels).astype(np.uint8))


def _chart(panel: Panel) -> Chart:
    # A closed form has the colour of what it predicts, and shares its entry in the legend.
    labels = list(dict.fromkeys(line.label for line in panel.lines))
    measured = {line.label for line in panel.lines if not line.theory}
    colours = _colours(labels)
    series = []
    for line in panel.lines:
        cycle = labels.index(line.label) // SOLID
        series.append(
            Series(
                "" if line.theory and line.label in measured else line.label,
                list(zip(_floats(line.x), _floats(line.mean), strict=True)),
                band=_band(line, panel.log_y),
                colour=colours[line.label],
                dash=THEORY if line.theory else MEASURED[cycle % len(MEASURED)],
            )
        )
    return Chart(
        panel.title,
        "",
        panel.xlabel,
        panel.ylabel,
        series,
        x_log=panel.log_x,
        y_log=panel.log_y,
    )


def _colours(labels: list[str]) -> dict[str, str]:
    """Colours from dark to light for sizes, as ``d=2``; distinct colours for other labels."""
    sizes = [label for label in labels if "=" in label]
    others = [label for label in labels if "=" not in label]
    colours = dict(zip(sizes, size_colours(len(sizes)), strict=True))
    names = list(CATEGORIES)
    for place, label in enumerate(others):
        colours[label] = names[place % len(names)]
    return colours


def _band(line: Line, log: bool) -> list[tuple[float, float]]:
    """One standard deviation to each side of the mean.

    On a logarithmic axis the lower end is as far below the mean as the upper end is above it.
    """
    if line.spread is None:
        return []
    band = []
    for mean, spread in zip(_floats(line.mean), _floats(line.spread), strict=True):
        high = mean + spread
        low = mean * mean / high if log and high else mean - spread
        band.append((low, high))
    return band


def _floats(values: Numbers) -> list[float]:
    return [math.nan if value is None else float(value) for value in values]
