"""The page of a benchmark: bars against the memory floor, and a table of all lines."""

from collections.abc import Sequence

from gatewise.report import Section, Sheet, Text, sheet_page
from gatewise.report.charts import Cell, Chart, Mark, Series, Table
from gatewise.speed.results import Row

COLUMNS = ("line", "target", "measured", "quartiles", "form", "verdict", "reason")


def speed_page(rows: Sequence[Row], facts: dict[str, str]) -> str:
    """Return the page as one HTML text.

    Args:
        rows: of one run.
        facts: of the machine, with the memory floor.
    """
    missed = [row for row in rows if row.verdict == "missed"]
    answer = f"{len(rows) - len(missed)} of {len(rows)} targets are met."
    about = ", ".join(f"{name} {value}" for name, value in facts.items())
    sections = []
    bars = [row for row in rows if row.line.startswith("relu/")]
    if bars:
        sections.append(Section("Units against native ReLU", [_bars(bars, facts)]))
    sections.append(Section("All lines", [_table(rows)]))
    return sheet_page(Sheet("Speed of units", about, [answer], sections, kind="bench"))


def _bars(rows: Sequence[Row], facts: dict[str, str]) -> Chart:
    marks = [Mark("native relu", y=1.0)]
    if "memory_floor" in facts:
        marks.append(Mark("memory floor", y=float(facts["memory_floor"])))
    return Chart(
        "Forward and backward, time over native relu",
        "The memory floor is the time to read and write the same maps without arithmetic.",
        "unit",
        "times native relu",
        [
            Series(
                "measured",
                [(float(place), row.measured) for place, row in enumerate(rows)],
                band=[(row.low, row.high) for row in rows],
                kind="bars",
            ),
            Series(
                "target",
                [(float(place), row.target) for place, row in enumerate(rows)],
                kind="rings",
                colour="up",
            ),
        ],
        x_names=[row.line.removeprefix("relu/") for row in rows],
        marks=marks,
        y_range=(0.0, 1.1 * max(max(row.high, row.target) for row in rows)),
    )


def _table(rows: Sequence[Row]) -> Table | Text:
    if not rows:
        return Text(["No line was measured."])
    cells = []
    for row in rows:
        look = "up" if row.verdict == "met" else "down"
        cells.append(
            [
                row.line,
                f"{row.relation} {row.target:g}",
                Cell(f"{row.measured:.2f}", row.measured),
                f"{row.low:.2f} to {row.high:.2f}",
                row.form,
                Cell(row.verdict, look=look),
                row.reason,
            ]
        )
    return Table(COLUMNS, cells, "Every line with its target.", align="lrrrlll")
