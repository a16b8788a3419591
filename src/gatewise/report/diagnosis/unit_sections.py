"""The section of a diagnosis about the cost of units."""

from typing import Any

from gatewise.report.diagnosis.fact_tables import folded_table, numbers_table, shown
from gatewise.report.diagnosis.layer_charts import Facts, percent, value_cell

MIB = 2**20


def show_cost(facts: Facts) -> list[Any]:
    """Return totals, and the cost of every activation."""
    inputs = facts["inputs"]
    numbers = {
        "parameters": facts["parameters"],
        "operations per input": round(facts["operations"] / inputs),
        "inputs per second, forward": facts["throughput"],
        "share of that time in activations": value_cell(facts["site_share"], percent),
    }
    if facts["saved_bytes"] is not None:
        numbers["bytes saved for backward per input"] = round(facts["saved_bytes"] / inputs)
    items: list[Any] = [numbers_table(numbers, f"on {inputs} inputs at once")]
    if facts["sites"]:
        items.append(folded_table(facts["sites"], COST_COLUMNS, "activations"))
    return items


def _saved_mib(site: Facts) -> float | None:
    return None if site["saved_bytes"] is None else site["saved_bytes"] / MIB


COST_COLUMNS = {
    "after layer": "name",
    "unit": "unit",
    "operations": "operations",
    "ms": lambda site: 1e3 * site["seconds"],
    "share": shown("share", percent),
    "MiB for backward": _saved_mib,
}
SHOWN = {"cost": show_cost}
