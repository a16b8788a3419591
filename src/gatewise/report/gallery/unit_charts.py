"""The curves of a unit as records of the chart model."""

import math
from collections.abc import Iterator
from dataclasses import replace

from gatewise.report.charts import DASHES, Chart, Panels, Series
from gatewise.report.gallery.records import Kink, Plot
from gatewise.report.picture_files import picture_file
from gatewise.words import number

PARTS = ("base", "two")  # colours of the parts of the output with default options
TILE_X = (-4.0, 4.0)
TILE_Y = (-2.0, 4.0)
LIGHT_STYLES = DASHES  # how many other sets of options can be distinguished


def unit_panels(plot: Plot, name: str = "") -> Panels:
    """Return the value of a unit and, next to it, its derivative; no charts without curves.

    Args:
        plot: The curves of the unit.
        name: The name of the unit, for screen readers.
    """
    if not plot.curves:
        return Panels("", plot.about, [])
    shape = _describe(plot)
    charts = []
    for title, attribute in (("value", "value"), ("derivative", "slope")):
        series = [*_curves(plot, attribute), *_rings(plot, attribute)]
        charts.append(_chart(title, series, f"{name}, {title}: {shape}"))
    return Panels("", plot.about, charts, legend=True)


def tile(plot: Plot) -> Chart | None:
    """Return the value with default options on the axes of all tiles, with ReLU behind it.

    None without curves.
    """
    if not plot.curves:
        return None
    relu = Series(
        "", [(TILE_X[0], 0.0), (0.0, 0.0), (TILE_X[1], TILE_X[1])], colour="light", dash=0
    )
    only_default = replace(plot, curves=plot.curves[:1])
    series = [relu, *_curves(only_default, "value")]
    return Chart("", "", "", "", series, x_range=TILE_X, y_range=TILE_Y, legend=False)


def figure(title: str, plot: Plot) -> bytes:
    """Return value and derivative side by side as the bytes of an SVG file."""
    return picture_file(replace(unit_panels(plot), title=title))


def _chart(title: str, series: list[Series], description: str) -> Chart:
    """A chart without legend, whose range is chosen for the main lines."""
    main = []
    light = []
    xs = []
    for curve in series:
        if curve.colour == "light":
            light.append(curve)
        elif curve.kind == "line":
            main.append(curve)
            xs += curve.xs
    left = min(xs, default=0.0)
    right = max(xs, default=0.0)
    if right == left:
        right += 1
    return Chart(
        title,
        "",
        "",
        "",
        series,
        x_range=(left, right),
        y_range=_y_range(main, light),
        legend=False,
        description=description,
    )


def _curves(plot: Plot, attribute: str) -> Iterator[Series]:
    """Yield default options in colour, then other options in grey, each in a line style."""
    for place, curve in enumerate(plot.curves):
        for part, line in enumerate(curve.lines):
            name = curve.label
            colour = PARTS[min(part, 1)]
            dash = 0
            if place:
                name = "" if part else name
                colour = "light"
                dash = (place - 1) % DASHES
            elif line.part:
                name = f"{curve.label}, {line.part}"
            points = getattr(line, attribute)
            yield Series(name, points, colour=colour, dash=dash, tooltips=False)


def _rings(plot: Plot, attribute: str) -> Iterator[Series]:
    """Yield the kinks, a ring for each part of the output."""
    if not plot.kinks:
        return
    parts = len(plot.kinks[0].values) if attribute == "value" else 1
    for part in range(parts):
        points = []
        notes = []
        for kink in plot.kinks:
            y = kink.values[part] if attribute == "value" else kink.slope
            points.append((kink.x, y))
            notes.append(_kink_note(kink))
        yield Series("", points, kind="rings", colour=PARTS[min(part, 1)], notes=notes)


def _kink_note(kink: Kink) -> str:
    """The tooltip of a kink."""
    return f"kink at {number(kink.x)}; the derivative there is {number(kink.slope)}"


def _y_range(main: list[Series], light: list[Series]) -> tuple[float, float]:
    """Room for the main lines, and for grey ones until the main ones fill only half."""
    low, high = _ends(main)
    spread = (high - low) / 2
    if light:
        light_low, light_high = _ends(light)
        low = max(min(low, light_low), low - spread)
        high = min(max(high, light_high), high + spread)
    margin = 0.06 * (high - low)
    return low - margin, high + margin


def _ends(curves: list[Series]) -> tuple[float, float]:
    """The lowest and the highest value, at least 1 apart if they are within 0.5."""
    ys = []
    for curve in curves:
        ys += filter(math.isfinite, curve.ys)
    low = min(ys, default=0.0)
    high = max(ys, default=0.0)
    if high - low > 0.5:
        return low, high
    middle = (low + high) / 2
    return middle - 0.5, middle + 0.5


def _describe(plot: Plot) -> str:
    """What the curve looks like, for a screen reader."""
    ends = []
    for line in plot.curves[0].lines:
        if line.value:
            ends.append(f"from {number(line.value[0][1])} to {number(line.value[-1][1])}")
    if not ends:
        return "nothing drawn"
    kinks = ", ".join(number(kink.x) for kink in plot.kinks)
    bends = f"kinks at {kinks}" if kinks else "no kinks"
    return f"runs {' and '.join(ends)}, {bends}"
