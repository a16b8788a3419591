"""Charts, pictures and the rows of a comparison as one SVG file. Pages draw the same fields."""

import math
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from gatewise.report.charts import COLOURS, Chart, Panels, RateRows, lay_out
from gatewise.report.page import environment, read_template

LETTER = 6.2  # pixels of a letter of the small text
LINE = 17  # pixels of a line of the title
LONGEST_NAMES = 40  # letters of the names below a chart that fit side by side
LONGEST_ENTRY = 24  # letters of an entry of a legend with two columns


@dataclass(frozen=True)
class Box:
    """The size of one chart or row in pixels.

    Args:
        width: Of the whole.
        left: What is left of the field.
        field: The width of the field.
        high: The height of the field.
        gap: What is between two fields.
    """

    width: int
    left: int
    field: int
    high: int
    gap: int = 0


CHART = Box(width=420, left=62, field=340, high=260)
ROW = Box(width=1000, left=200, field=380, high=68, gap=30)


def picture_file(record: Panels | RateRows) -> bytes:
    """Return charts and pictures side by side, or rows, as the bytes of an SVG file.

    The same record gives the same bytes. ``about`` is left out.

    Args:
        record: What is drawn.
    """
    is_rows = isinstance(record, RateRows)
    items = [] if is_rows else [_item(item, legend=not record.legend) for item in record.items]
    rows = lay_out(record) if is_rows else None
    if items and not is_rows and record.legend:
        items[0] |= _legend(items[0]["layout"], wanted=True)
    width = ROW.width if is_rows else max(1, len(items)) * CHART.width
    title = wrap(record.title, int(width / (1.15 * LETTER)))
    top = 12 + LINE * len(title)
    below = max((item["below"] for item in items), default=0)
    height = top + 52 + ROW.high * len(rows.rows) if rows else top + 30 + CHART.high + below
    style = read_template("picture.css")
    style += "".join(f".c-{name}{{color:{colour}}}" for name, colour in COLOURS.items())
    return (
        environment()
        .get_template("picture.svg")
        .render(
            title=title,
            width=width,
            height=height,
            top=top,
            style=style,
            items=items,
            rows=rows,
            chart=CHART,
            row=ROW,
        )
        .encode()
    )


def _item(item: Any, *, legend: bool) -> dict[str, Any]:
    """Return a chart or a picture with the room that it needs below its field."""
    layout = lay_out(item)
    if not isinstance(item, Chart):
        return {"layout": layout, "title": item.title, "below": 0}
    longest = max(map(len, item.x_names), default=0)
    upright = longest * len(item.x_names) > LONGEST_NAMES
    names = 14 + LETTER * longest if upright else 20
    values = {"layout": layout, "title": item.title, "upright": upright, "names": names}
    return values | _legend(layout, wanted=legend and layout.has_legend, names=names)


def _legend(layout: Any, *, wanted: bool, names: float = 20.0) -> dict[str, Any]:
    """Return the entries of the legend of a chart, in one or two columns."""
    entries = layout.named if wanted else []
    longest = max((len(drawn.series.name) for drawn in entries), default=0)
    columns = 1 if longest > LONGEST_ENTRY else 2
    below = names + 22 + 16 * math.ceil(len(entries) / columns)
    return {"legend": entries, "columns": columns, "below": below}
