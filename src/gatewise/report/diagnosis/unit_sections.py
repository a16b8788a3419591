"""Sections of a diagnosis about the units themselves.

What they cost, and which properties they have.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gatewise.report.charts import Cell, Table
from gatewise.report.diagnosis.layer_charts import along, layer_chart, percent, said
from gatewise.report.sheet import Folded, Text
from gatewise.words import count, number

Facts = Mapping[str, Any]
MIB = 2**20


def show_cost(facts: Facts) -> list[Any]:
    """Totals, the share of time of every site, and all in a table."""
    items: list[Any] = [
        Table(["", f"on {facts['inputs']} inputs at once"], _totals(facts), align="lr")
    ]
    sites = facts["sites"]
    if not sites:
        return items
    names = [each["name"] for each in sites]
    time = along(
        "share of the forward time",
        names,
        [100 * each["share"] for each in sites],
        "%",
        kind="bars",
    )
    items.append(layer_chart("Where units take time", "", "% of the forward pass", names, [time]))
    return [*items, Folded(f"All {len(sites)} sites in a table", [_cost_table(sites)])]


def _totals(facts: Facts) -> list[list[str | Cell]]:
    each = facts["operations"] / facts["inputs"]
    rows: list[list[str | Cell]] = [
        ["parameters", Cell(count(facts["parameters"]), value=facts["parameters"])],
        ["operations an input", Cell(count(round(each)), value=each)],
        ["inputs a second, forward", said(facts["throughput"])],
        ["units' share of that time", said(facts["site_share"], percent)],
    ]
    if facts["saved_bytes"] is not None:
        kept = facts["saved_bytes"] / facts["inputs"]
        rows.append(["bytes kept for backward, an input", Cell(count(round(kept)), value=kept)])
    return rows


def _cost_table(sites: Sequence[Facts]) -> Table:
    rows = [
        [
            each["name"],
            each["unit"],
            count(each["operations"]),
            said(1e3 * each["seconds"]),
            said(each["share"], percent),
            "" if each["saved_bytes"] is None else said(each["saved_bytes"] / MIB),
        ]
        for each in sites
    ]
    return Table(
        ["site", "unit", "operations", "ms", "share", "MiB for backward"], rows, align="llrrrr"
    )


def show_properties(facts: Facts) -> list[Any]:
    """A row a unit, a column a property: its constant, or where it fails."""
    names = [each["name"] for each in facts["units"][0]["properties"]] if facts["units"] else []
    rows = [
        [each["unit"], str(each["sites"]), *(_property(one) for one in each["properties"])]
        for each in facts["units"]
    ]
    items: list[Any] = [Text([PROPERTIES])]
    items += [Table(["unit", "sites", *names], rows, align="lr" + "l" * len(names))] * bool(rows)
    items += [Text([f"Left out: {'; '.join(facts['left_out'])}."])] if facts["left_out"] else []
    if facts.get("term_s"):
        items.append(_similarities(facts["term_s"]))
    return items


PROPERTIES = (
    "A unit's weight ρ(x) = f(x) / x says how much of a response passes. Five properties of such weights, each with "
    "its constant where it holds and a witness where it does not: ρ is not constant; |ρ| does not fall as the response "
    "grows; |f| is bounded for negative responses; |f'| is bounded for positive ones; and ρ tells responses apart that "
    "lie on both sides of a point."
)


def _property(each: Facts) -> Cell:
    parts = each["constants"] if each["holds"] else each["witness"]
    shown = ", ".join(
        f"{name} {number(value + 0.0)}"
        for name, value in parts.items()
        if isinstance(value, int | float)
    )
    text = "yes" if each["holds"] else "no"
    return Cell(f"{text} ({shown})" if shown else text, look="" if each["holds"] else "down")


def _similarities(rows: Sequence[Facts]) -> Table:
    cells = [
        [each["name"], said(each["least"]), said(each["most"]), said(each["beyond_one"], percent)]
        for each in rows
    ]
    caption = "Similarity of patches and filters (Term-S) at the model's IIEU units"
    return Table(["unit", "least", "most", "beyond 1"], cells, caption=caption, align="lrrr")


def show_complexity(facts: Facts) -> list[Any]:
    """The complexities and the bounds."""
    names = {
        "base": f"the filters of {facts['layer']} themselves",
        "relu": "with ReLU",
        "crelu": "with CReLU",
        "printed_bound": "bound for CReLU, as printed",
        "bound": "bound for CReLU, as its proof gives it",
    }
    rows = [[words, said(facts[name])] for name, words in names.items()]
    about = f"Rademacher complexity on {facts['samples']} inputs"
    return [Text([COMPLEXITY]), Table(["", about], rows, align="lr")]


COMPLEXITY = (
    "The complexity is how well a layer with linear weights of length 1 behind it can follow random signs on these "
    "inputs: the larger, the more it can fit to chance. The bound is the complexity of the filters times the square "
    "root of their number and 3/√2; as the paper prints it, without that last factor, it can be broken."
)

SHOWN = {"cost": show_cost, "properties": show_properties, "complexity": show_complexity}
