"""The runs behind a comparison: all of them, those that did not finish, and what they ran on."""

import math
from collections import Counter

from gatewise.report.charts import SAFE_LINK, Cell, Table
from gatewise.report.comparison.answer import decimals
from gatewise.report.comparison.findings import Findings, Run
from gatewise.report.comparison.tables import cost_cell, count_cell, number_cell

PARTS = ("backbone", "data", "recipe")


def runs_table(found: Findings, folder: str | None) -> Table:
    """Every run, with a link to its folder where the page knows the way."""
    varied = [i for i in range(len(PARTS)) if len({run.block[i] for run in found.runs}) > 1]
    columns = [
        "unit",
        *(PARTS[i] for i in varied),
        "seed",
        "status",
        found.metric.label,
        "seconds",
        "folder",
    ]
    rows = [
        [
            run.unit,
            *(run.block[i] for i in varied),
            count_cell(run.seed),
            _status(run),
            number_cell(found.metric.of(run.record.get("metrics")), decimals(found)),
            cost_cell(_seconds(run), "seconds"),
            _link(run, folder),
        ]
        for run in found.runs
    ]
    return Table(columns, rows, "", "l" + "l" * len(varied) + "rlrrl")


def failed_table(found: Findings) -> Table | None:
    """The runs that did not finish, with their reasons."""
    rows = [
        [
            run.unit,
            " · ".join(run.block),
            count_cell(run.seed),
            _status(run),
            str(run.record.get("reason") or "not said"),
        ]
        for run in found.runs
        if run.status not in ("finished", "not run")
    ]
    return (
        Table(
            ["unit", "where", "seed", "status", "reason"], rows, "Runs that did not finish", "llrll"
        )
        if rows
        else None
    )


def environment_table(found: Findings) -> Table | None:
    """What the runs ran on.

    Where it was not the same for all, each value with how many runs had it.
    """
    rows = [[name, _values(values)] for name, values in environments(found).items()]
    return Table(["what", "value"], rows, "", "ll") if rows else None


def environments(found: Findings) -> dict[str, Counter[str]]:
    """Each thing the runs recorded of their surroundings, with how many runs had each value of it."""
    kinds: dict[str, Counter[str]] = {}
    for run in found.runs:
        for name, value in (run.record.get("environment") or {}).items():
            kinds.setdefault(str(name), Counter())[str(value)] += 1
    return kinds


def _values(values: Counter[str]) -> str | Cell:
    if len(values) == 1:
        return next(iter(values))
    return Cell(
        ", ".join(f"{value} ({count} runs)" for value, count in values.most_common()), look="down"
    )


def _status(run: Run) -> Cell:
    return Cell(run.status, look="" if run.status == "finished" else "down")


def _seconds(run: Run) -> float:
    found = run.record.get("seconds")
    return float(found) if isinstance(found, int | float) else math.nan


def _link(run: Run, folder: str | None) -> str | Cell:
    if folder is None or not run.record:
        return run.key
    link = f"{folder.rstrip('/')}/cells/{run.key}/".lstrip("/")
    return Cell(run.key, link=link) if SAFE_LINK.fullmatch(link) else run.key
