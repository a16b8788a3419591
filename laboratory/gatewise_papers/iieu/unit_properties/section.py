"""The section of a diagnosis about the properties of units."""

from collections.abc import Sequence
from typing import Any

from gatewise.report import show_question
from gatewise.report.charts import Cell, Table
from gatewise.report.diagnosis import Facts, column, left_out, percent, value_cell
from gatewise.report.sheet import Text
from gatewise.words import number

PROPERTIES = (
    "The weight ρ(x) = f(x) / x of a unit says how much of a response passes. "
    "The table shows five properties, with a constant if the property holds and a counterexample "
    "if it does not: ρ is not constant; |ρ| does not fall as the response grows; "
    "|f| is bounded for negative responses; |f'| is bounded for positive responses; "
    "ρ distinguishes responses on the two sides of a point."
)


def show_properties(facts: Facts) -> list[Any]:
    """Return a row per unit and a column per property: its constant or a counterexample."""
    items: list[Any] = [Text([PROPERTIES])]
    units = facts["units"]
    if units:
        names = column(units[0]["properties"], "name")
        rows = []
        for unit in units:
            cells = [_property(entry) for entry in unit["properties"]]
            rows.append([unit["unit"], str(unit["sites"]), *cells])
        columns = ["unit", "activations", *names]
        items.append(Table(columns, rows, align="lr" + "l" * len(names)))
    items += left_out(facts)
    if facts.get("term_s"):
        items.append(_similarities(facts["term_s"]))
    return items


def _property(entry: Facts) -> Cell:
    """Whether a property holds, with its constants or a counterexample."""
    holds = entry["holds"]
    numbers = []
    for name, value in (entry["constants"] if holds else entry["witness"]).items():
        if isinstance(value, int | float):
            numbers.append(f"{name} {number(value + 0.0)}")  # -0.0 becomes 0.0
    text = "yes" if holds else "no"
    if numbers:
        text += f" ({', '.join(numbers)})"
    return Cell(text, look="" if holds else "down")


def _similarities(entries: Sequence[Facts]) -> Table:
    """The range of Term-S in each IIEU unit."""
    rows = []
    for entry in entries:
        rows.append(
            [
                entry["name"],
                value_cell(entry["least"]),
                value_cell(entry["most"]),
                value_cell(entry["beyond_one"], percent),
            ]
        )
    caption = "Similarity of patches and filters (Term-S) in the IIEU units of the model"
    return Table(["unit", "smallest", "largest", "above 1"], rows, caption=caption, align="lrrr")


show_question("properties", show_properties)
