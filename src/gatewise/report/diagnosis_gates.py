"""Sections of a diagnosis about activation sites and their gates."""

from collections.abc import Mapping
from typing import Any

from gatewise.report.charts import Table
from gatewise.report.sheet import Folded, Text
from gatewise.report.words import join

Facts = Mapping[str, Any]


def show_sites(facts: Facts) -> list[Any]:
    """Every site in a table."""
    rows = [
        [each["name"], each["op"], each["kind"], each["role"], "" if each["channels"] is None else str(each["channels"]),
         join(each["producers"]), join(each["consumers"])]
        for each in facts["sites"]
    ]  # fmt: skip
    columns = ["site", "unit", "called as", "role", "channels", "made by", "read by"]
    table = Table(columns, rows, align="llllrll")
    notes = [Text([note]) for note in facts["notes"]]
    return [Folded("All sites in a table", [table], open=len(rows) <= 12), *notes]


SHOWN = {"sites": show_sites}
