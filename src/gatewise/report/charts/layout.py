"""From a record of the chart model to its geometry."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.report.charts.chart_layout import lay_out_chart
from gatewise.report.charts.picture_layout import lay_out_picture
from gatewise.report.charts.rate_rows_layout import lay_out_rate_rows
from gatewise.report.charts.records import (
    ALIGNMENTS,
    Cell,
    Chart,
    Picture,
    RateRows,
    Regions,
    Table,
    Words,
)
from gatewise.report.charts.region_layout import lay_out_regions


@dataclass(frozen=True)
class TableLayout:
    """A table whose cells are all of type :class:`Cell`, and the class of each column."""

    table: Table
    classes: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def lay_out_table(table: Table) -> TableLayout:
    """Return the cells of a table and the alignment of its columns."""
    align = table.align or "l" * len(table.columns)
    classes = tuple(ALIGNMENTS[letter] for letter in align)
    return TableLayout(table, classes, tuple(map(as_cells, table.rows)))


LAYOUTS: dict[type, Callable[[Any], Any]] = {
    Chart: lay_out_chart,
    Picture: lay_out_picture,
    RateRows: lay_out_rate_rows,
    Regions: lay_out_regions,
    Table: lay_out_table,
}


def lay_out(record: Any) -> Any:
    """Return the geometry of a record.

    Raises:
        ArgumentError: If the record is not one that a page can show.
    """
    if type(record) not in LAYOUTS:
        raise ArgumentError(
            "page: this cannot be shown",
            got=type(record).__name__,
            allowed="Chart, Picture, RateRows, Regions, Table, Panels, Film",
        )
    return LAYOUTS[type(record)](record)


def as_cells(words: Words) -> tuple[Cell, ...]:
    """Return a line of text as cells."""
    parts = (words,) if isinstance(words, str) else words
    return tuple(part if isinstance(part, Cell) else Cell(part) for part in parts)
