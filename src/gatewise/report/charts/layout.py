"""From the records of `charts` to what the template draws."""

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.report.charts.chart_layout import lay_out_chart
from gatewise.report.charts.film_strip import Film, lay_out_film
from gatewise.report.charts.forest_layout import lay_out_forest
from gatewise.report.charts.picture_layout import lay_out_picture
from gatewise.report.charts.records import (
    ALIGNMENTS,
    Cell,
    Chart,
    Forest,
    Panels,
    Picture,
    Table,
    Words,
)
from gatewise.report.charts.region_plots import Regions, lay_out_regions


@dataclass(frozen=True)
class TableLayout:
    """A table with every cell a :class:`Cell`, and a class for each column."""

    table: Table
    classes: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    kind: str = "table"


@dataclass(frozen=True)
class PanelsLayout:
    """Several laid-out records."""

    panels: Panels
    kind: str = "panels"


@singledispatch
def lay_out(shown: Any) -> Any:
    """The geometry of a record that a page can show; its ``kind`` says which macro draws it."""
    raise ArgumentError(
        "page: this cannot be shown",
        got=type(shown).__name__,
        allowed="Chart, Forest, Picture, Table, Panels",
    )


lay_out.register(Chart, lay_out_chart)
lay_out.register(Forest, lay_out_forest)
lay_out.register(Picture, lay_out_picture)
lay_out.register(Regions, lay_out_regions)
lay_out.register(Film, lay_out_film)


@lay_out.register
def _(shown: Table) -> TableLayout:
    align = shown.align or "l" * len(shown.columns)
    return TableLayout(
        shown, tuple(ALIGNMENTS[letter] for letter in align), tuple(runs(row) for row in shown.rows)
    )


@lay_out.register
def _(shown: Panels) -> PanelsLayout:
    return PanelsLayout(shown)


def runs(words: Words) -> tuple[Cell, ...]:
    """A line of text as cells."""
    parts = (words,) if isinstance(words, str) else words
    return tuple(part if isinstance(part, Cell) else Cell(part) for part in parts)
