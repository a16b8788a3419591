"""Sections of a diagnosis about units: their cost, their properties, their complexity."""

from collections.abc import Sequence
from typing import Any

from gatewise.report.charts import Cell, Table
from gatewise.report.diagnosis.layer_charts import (
    Facts,
    column,
    layer_chart,
    layer_series,
    left_out,
    percent,
    value_cell,
)
from gatewise.report.sheet import Folded, Text
from gatewise.words import count, number

MIB = 2**20

PROPERTIES = (
    "The weight ρ(x) = f(x) / x of a unit says how much of a response passes. "
    "The table shows five properties, with a constant if the property holds and a counterexample "
    "if it does not: ρ is not constant; |ρ| does not fall as the response grows; "
    "|f| is bounded for negative responses; |f'| is bounded for positive responses; "
    "ρ distinguishes responses on the two sides of a point."
)
COMPLEXITY = (
    "The complexity says how well the layer, followed by linear weights of length 1, can fit "
    "random labels on these inputs. Larger means that it can fit more noise. "
    "The bound is the complexity of the filters times the square root of their number and 3/√2. "
    "The paper prints it without that last factor; then it does not always hold."
)


def show_cost(facts: Facts) -> list[Any]:
    """Return totals, the share of time of every activation, and all in a table."""
    heading = f"on {facts['inputs']} inputs at once"
    items: list[Any] = [Table(["", heading], _totals(facts), align="lr")]
    sites = facts["sites"]
    if not sites:
        return items
    names = column(sites, "name")
    shares = [100 * site["share"] for site in sites]
    series = [layer_series("share of the forward time", names, shares, "%", kind="bars")]
    items.append(
        layer_chart("Time of activation functions", "", "% of the forward pass", names, series)
    )
    return [*items, Folded(f"All {len(sites)} activations in a table", [_cost_table(sites)])]


def _totals(facts: Facts) -> list[list[str | Cell]]:
    """Parameters, operations, throughput and memory of the whole model."""
    operations = facts["operations"] / facts["inputs"]
    rows: list[list[str | Cell]] = [
        ["parameters", Cell(count(facts["parameters"]), value=facts["parameters"])],
        ["operations per input", Cell(count(round(operations)), value=operations)],
        ["inputs per second, forward", value_cell(facts["throughput"])],
        ["share of that time in activations", value_cell(facts["site_share"], percent)],
    ]
    if facts["saved_bytes"] is not None:
        saved = facts["saved_bytes"] / facts["inputs"]
        rows.append(["bytes saved for backward per input", Cell(count(round(saved)), value=saved)])
    return rows


def _cost_table(sites: Sequence[Facts]) -> Table:
    """Operations, time and memory of each activation."""
    rows = []
    for site in sites:
        saved = site["saved_bytes"]
        rows.append(
            [
                site["name"],
                site["unit"],
                count(site["operations"]),
                value_cell(1e3 * site["seconds"]),
                value_cell(site["share"], percent),
                "" if saved is None else value_cell(saved / MIB),
            ]
        )
    columns = ["after layer", "unit", "operations", "ms", "share", "MiB for backward"]
    return Table(columns, rows, align="llrrrr")


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


def show_complexity(facts: Facts) -> list[Any]:
    """Return the complexities and the bounds."""
    rows = [
        [f"the filters of {facts['layer']}", value_cell(facts["base"])],
        ["with ReLU", value_cell(facts["relu"])],
        ["with CReLU", value_cell(facts["crelu"])],
        ["bound for CReLU, as printed", value_cell(facts["printed_bound"])],
        ["bound for CReLU, from its proof", value_cell(facts["bound"])],
    ]
    heading = f"Rademacher complexity on {facts['samples']} inputs"
    return [Text([COMPLEXITY]), Table(["", heading], rows, align="lr")]


SHOWN = {"cost": show_cost, "properties": show_properties, "complexity": show_complexity}
