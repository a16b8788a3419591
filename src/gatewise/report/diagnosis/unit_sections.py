"""Sections of a diagnosis about units: their cost and their complexity."""

from collections.abc import Sequence
from typing import Any

from gatewise.report.charts import Cell, Table
from gatewise.report.diagnosis.layer_charts import (
    Facts,
    column,
    layer_chart,
    layer_series,
    percent,
    value_cell,
)
from gatewise.report.sheet import Folded, Text
from gatewise.words import count

MIB = 2**20

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


SHOWN = {"cost": show_cost, "complexity": show_complexity}
