"""The chart model: charts, rows of a comparison, pictures, tables and regions as plain records.

A record says what is shown, not where. `layout` computes where, and the template ``charts.html``
draws it, into a page or a file.
Every string in a record is text, never markup.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gatewise.errors import ArgumentError
from gatewise.report.charts.palette import COLOURS

Point = tuple[float, float]
Kind = Literal["line", "dots", "rings", "bars", "steps"]
Look = Literal["", "up", "down", "mute", "name", "warn"]
KINDS = ("line", "dots", "rings", "bars", "steps")
DASHES = 4  # the number of line styles: solid, dashed, dotted, dash-dotted
SAFE_LINK = re.compile(r"#[\w-]+|(?!/|\.)[\w-]+(\.[\w-]+)*(/[\w-]+(\.[\w-]+)*)*/?", re.ASCII)
ALIGNMENTS = {"l": "", "r": "n"}  # letter of an alignment: class of the cell in the page


@dataclass(frozen=True)
class Series:
    """One set of points and how it is drawn.

    Points that are not finite are left out, and a line breaks there.

    Args:
        name: The entry of the legend. A series without a name has no entry.
        points: Pairs of x and y.
        band: Low and high at each point, or nothing. Drawn as an area behind a line, and as a
            vertical bar through dots and bars.
        kind: ``line``, ``steps`` (each value is held until the next x), ``dots``, ``rings`` (dots
            that are not filled) or ``bars``.
        colour: A name of the palette. Series in ``light`` are drawn behind all others.
        notes: The tooltip of each point, or nothing for its two numbers.
        dash: The line style, from 0 to 3. None numbers the series of one colour in their order.
        tooltips: Whether single points can be pointed at. A dense curve goes without; its breaks
            are not counted as points that are missing.
    """

    name: str
    points: Sequence[Point]
    band: Sequence[tuple[float, float]] = ()
    kind: Kind = "line"
    colour: str = "base"
    notes: Sequence[str] = ()
    dash: int | None = None
    tooltips: bool = True

    @property
    def xs(self) -> list[float]:
        """The x of every point."""
        return [x for x, _ in self.points]

    @property
    def ys(self) -> list[float]:
        """The y of every point."""
        return [y for _, y in self.points]

    def __post_init__(self) -> None:
        """Check the values that a renderer relies on."""
        _check("kind", self.kind, KINDS)
        _check("colour", self.colour, tuple(COLOURS))
        _check("dash", self.dash, (None, *range(DASHES)))
        for what in ("band", "notes"):
            length = len(getattr(self, what))
            if length not in (0, len(self.points)):
                raise ArgumentError(
                    f"series: {what} needs one entry for each point",
                    got=length,
                    allowed=len(self.points),
                )


@dataclass(frozen=True)
class Mark:
    """A label at a point or, with one coordinate only, a line across the chart."""

    text: str
    x: float | None = None
    y: float | None = None


@dataclass(frozen=True)
class Chart:
    """Series over two axes.

    Args:
        title: The heading of the chart.
        about: A sentence on how to read it.
        x_label: What the horizontal axis shows.
        y_label: What the vertical axis shows.
        series: What is drawn, in the order of the legend.
        x_log: Whether the horizontal axis is logarithmic.
        y_log: Whether the vertical axis is logarithmic.
        x_names: Names for x = 0, 1, 2 and so on, in place of numbers.
        marks: Labels at points, and lines across the chart.
        x_range: Ends of the horizontal axis. None takes them from the points.
        y_range: Ends of the vertical axis. None takes them from the points.
        small: Whether the chart is one of many side by side: half as high.
        legend: Whether the chart has a legend, if it has several named series.
        description: What a screen reader says. By default the title, the axes and the series.
    """

    title: str
    about: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    x_log: bool = False
    y_log: bool = False
    x_names: Sequence[str] = ()
    marks: Sequence[Mark] = ()
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    small: bool = False
    legend: bool = True
    description: str = ""


@dataclass(frozen=True)
class RateRow:
    """One unit of a comparison: its curve over the learning rate, and its difference.

    Args:
        name: Of the unit.
        verdict: In words, below the name.
        colour: ``up`` for better, ``down`` for worse, else ``flat``.
        curve: Learning rate and mean.
        band: Low and high at each point.
        notes: The tooltip of each point.
        best: The best rate tried and the mean there, or nothing.
        value: The difference; NaN if there is none.
        low: Lower end of its interval; NaN if there is none.
        high: Upper end of its interval; NaN if there is none.
        figures: Difference and interval in text.
    """

    name: str
    verdict: str
    colour: str
    curve: Sequence[Point] = ()
    band: Sequence[tuple[float, float]] = ()
    notes: Sequence[str] = ()
    best: Point | None = None
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    figures: str = ""


@dataclass(frozen=True)
class RateRows:
    """Units below each other: at the left the curve over the rate, at the right the difference.

    Args:
        title: The heading.
        about: A sentence on how to read it.
        rows: One per unit, the best first.
        baseline: The row whose curve stands behind all others.
        curve_label: What the curves show; empty for rows without curves.
        difference_label: What the differences are; empty for rows without differences.
        y_range: Ends of the vertical axis of all curves.
    """

    title: str
    about: str
    rows: Sequence[RateRow]
    baseline: RateRow
    curve_label: str
    difference_label: str
    y_range: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class Picture:
    """An image, pixel by pixel.

    Args:
        title: The heading of the image, and its text for screen readers.
        pixels: ``H x W`` grey or ``H x W x 3`` colour values, whole numbers from 0 to 255.
        scale: How many pixels of the page show one pixel of the image.
        about: A sentence on how to read it.
    """

    title: str
    pixels: Any
    scale: int = 4
    about: str = ""


@dataclass(frozen=True)
class Regions:
    """Polygons in a square window, lines across them, and named points.

    Args:
        title: The heading of the plot.
        about: A sentence on how to read it.
        polygons: The corners of each region, in order.
        lines: Line segments, for example a decision boundary.
        marks: Named points. A point outside the window is left out.
        low: The lower left corner of the window.
        high: The upper right corner of the window.
        line_name: What ``lines`` are, for the legend.
    """

    title: str
    about: str
    polygons: Sequence[Sequence[Point]]
    lines: Sequence[tuple[Point, Point]]
    marks: Sequence[tuple[str, Point]]
    low: Point
    high: Point
    line_name: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell of a table, or a few words in a line of text.

    Args:
        text: What is shown.
        value: The number in full; a copy of the table as CSV has it in place of ``text``.
        link: A place in the page (``#name``) or a path below the page's folder.
        look: The colour or weight of the text.
    """

    text: str
    value: float | None = None
    link: str = ""
    look: Look = ""

    def __post_init__(self) -> None:
        """Refuse a link that could lead out of the page's folder."""
        if self.link and not SAFE_LINK.fullmatch(self.link):
            raise ArgumentError(
                "cell: the link may lead out of the page's folder",
                got=self.link,
                allowed="#name, a/b",
            )


Words = str | Sequence[str | Cell]  # a line of text; a cell in it has a colour or a link


@dataclass(frozen=True)
class Table:
    """Rows under columns. The first cell of a row names the row.

    Args:
        columns: The headings.
        rows: One cell for each column. A string is a cell without value, link and look.
        caption: What the table shows.
        align: ``l`` or ``r`` for each column. Empty aligns all columns left.
        csv_only: How many of the last columns are only in a copy as CSV.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    caption: str = ""
    align: str = ""
    csv_only: int = 0

    def __post_init__(self) -> None:
        """Check that rows and alignment fit the columns."""
        width = len(self.columns)
        for place, row in enumerate(self.rows):
            if len(row) != width:
                raise ArgumentError(
                    "table: a row needs one cell for each column",
                    got=f"{len(row)} in row {place}",
                    allowed=width,
                )
        if self.align and (len(self.align) != width or set(self.align) - set(ALIGNMENTS)):
            raise ArgumentError(
                "table: align needs one letter, l or r, for each column", got=self.align
            )


@dataclass(frozen=True)
class Panels:
    """Charts or pictures side by side, as many in a row as fit.

    Args:
        title: The heading of the group.
        about: A sentence on how to read it.
        items: The charts or pictures.
        legend: Whether the legend of the first chart stands below all of them.
    """

    title: str
    about: str
    items: Sequence[Chart | Picture]
    legend: bool = False


@dataclass(frozen=True)
class Film:
    """Regions or pictures in order of time, side by side. A script can play them.

    Args:
        title: The heading of the film.
        about: A sentence on how to read it.
        frames: The single pictures, each with its checkpoint in its title.
    """

    title: str
    about: str
    frames: Sequence[Regions] | Sequence[Picture]

    def __post_init__(self) -> None:
        """Refuse a film without a picture."""
        if not self.frames:
            raise ArgumentError("film: there is no picture", got=0, allowed="1 or more")


def _check(what: str, got: object, allowed: Sequence[object]) -> None:
    """Refuse a value of a series that is not one of the allowed ones."""
    if got not in allowed:
        names = ", ".join(map(str, allowed))
        raise ArgumentError(f"series: no such {what}", got=got, allowed=names)
