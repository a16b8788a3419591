"""What a page can show besides text: charts, forest plots, tables and pictures, as plain records.

A template draws any of them by ``{{ kit.show(record) }}`` after
``{% import "charts.html" as kit %}``; a page that does so is rendered with ``kit=True``. Every
string in them is text, never markup.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gatewise.errors import ArgumentError
from gatewise.report.records import Point

Kind = Literal["line", "dots", "bars", "steps"]
Look = Literal["", "up", "down", "mute", "name"]
Colour = Literal["base", "two", "up", "down", "flat", "light"]
KINDS = ("line", "dots", "bars", "steps")
COLOURS = ("base", "two", "up", "down", "flat", "light")
SAFE_LINK = re.compile(r"#[\w-]+|(?!/|\.)[\w-]+(\.[\w-]+)*(/[\w-]+(\.[\w-]+)*)*/?", re.ASCII)
ALIGNMENTS = {"l": "", "r": "n"}  # letter: class of the cell


@dataclass(frozen=True)
class Series:
    """One set of points and how it is drawn.

    Points that are not finite are left out, and a line breaks there.
    """

    name: str  # in the legend
    points: Sequence[Point]
    band: Sequence[
        tuple[float, float]
    ] = ()  # low and high at each point: drawn as an area (line) or whiskers (dots)
    kind: Kind = "line"
    colour: Colour = "base"
    notes: Sequence[str] = ()  # what the tooltip of each point says; its two numbers without

    def __post_init__(self) -> None:
        """Refuse what could not be drawn."""
        _check("kind", self.kind, KINDS)
        _check("colour", self.colour, COLOURS)
        for what, each in (("band", self.band), ("notes", self.notes)):
            if len(each) not in (0, len(self.points)):
                raise ArgumentError(
                    f"series: {what} must be one for each point",
                    got=len(each),
                    allowed=len(self.points),
                )


@dataclass(frozen=True)
class Mark:
    """A label at a point; or, with one coordinate only, a line across the field."""

    text: str
    x: float | None = None
    y: float | None = None


@dataclass(frozen=True)
class Chart:
    """Series over two axes.

    ``x_names`` are names for x = 0, 1, 2...; a range not given is taken from the points.
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
    small: bool = False  # one of many side by side: half as high
    legend: bool = True


@dataclass(frozen=True)
class Interval:
    """One row of a forest plot.

    A difference, its interval, the single differences behind it, and what it shows.
    """

    name: str
    value: float
    low: float  # NaN where there is no interval
    high: float
    dots: Sequence[float] = ()
    verdict: str = ""  # "better" and "worse" are coloured, anything else is not
    p: float | None = None
    dot_notes: Sequence[str] = ()  # what the tooltip of each dot says


@dataclass(frozen=True)
class Forest:
    """Differences from a baseline under each other on one axis.

    ``label`` says what is measured, and in what.
    """

    title: str
    about: str
    label: str
    rows: Sequence[Interval]
    p_label: str = "p"
    decimals: int = 2
    range: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class Picture:
    """Pixels as they are, each ``scale`` wide.

    ``H x W`` grey or ``H x W x 3`` colour, whole numbers from 0 to 255.
    """

    title: str
    pixels: Any
    scale: int = 4
    about: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell of a table, or a few words in a line.

    ``value``, the number in full, is what a copy as CSV holds.
    """

    text: str
    value: float | None = None
    link: str = ""  # within the page (#...) or below the page's own folder
    look: Look = ""

    def __post_init__(self) -> None:
        """Refuse a link that could lead out of the page's folder."""
        if self.link and not SAFE_LINK.fullmatch(self.link):
            raise ArgumentError(
                "cell: the link may lead out of the page's folder",
                got=self.link,
                allowed="#name, a/b",
            )


Words = str | Sequence[str | Cell]  # a line of text; cells in it have a colour, or a link


@dataclass(frozen=True)
class Table:
    """Rows under columns; the first cell of a row names it.

    ``align`` has a letter for each column: l or r.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    caption: str = ""
    align: str = ""

    def __post_init__(self) -> None:
        """Refuse rows that do not fit the columns."""
        wrong = [i for i, row in enumerate(self.rows) if len(row) != len(self.columns)]
        if wrong:
            got = f"{len(self.rows[wrong[0]])} in row {wrong[0]}"
            raise ArgumentError(
                "table: a row must have a cell for each column", got=got, allowed=len(self.columns)
            )
        if self.align and (
            len(self.align) != len(self.columns) or set(self.align) - set(ALIGNMENTS)
        ):
            raise ArgumentError(
                "table: align has a letter, l or r, for each column", got=self.align
            )


@dataclass(frozen=True)
class Panels:
    """Records of one kind side by side, as many in a row as fit: small charts, or pictures."""

    title: str
    about: str
    items: Sequence[Chart] | Sequence[Picture]


Shown = Chart | Forest | Picture | Table | Panels


def _check(what: str, got: object, allowed: Sequence[str]) -> None:
    if got not in allowed:
        raise ArgumentError(f"series: no such {what}", got=got, allowed=", ".join(allowed))
