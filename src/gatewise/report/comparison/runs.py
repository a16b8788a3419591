"""The runs of a comparison: all of them, those that did not finish, and their environment."""

import math
from collections import Counter

from gatewise.report.charts import SAFE_LINK, Cell, Table
from gatewise.report.comparison.answer import decimals
from gatewise.report.comparison.findings import Findings, Run
from gatewise.report.comparison.tables import cost_cell, count_cell, number_cell

PARTS = ("backbone", "data", "recipe")


def runs_table(findings: Findings, folder: str | None) -> Table:
    """Return every run, with a link to its folder.

    Args:
        findings: The comparison.
        folder: The path from the page to the study's folder; None for no links.
    """
    varied = []
    for place in range(len(PARTS)):
        if len({run.block[place] for run in findings.runs}) > 1:
            varied.append(place)
    names = [PARTS[place] for place in varied]
    columns = ["unit", *names, "seed", "status", findings.metric.label, "seconds", "folder"]
    rows = []
    for run in findings.runs:
        value = findings.metric.of(run.record.get("metrics"))
        seconds = run.record.get("seconds")
        known = isinstance(seconds, int | float)
        rows.append(
            [
                run.unit,
                *(run.block[place] for place in varied),
                count_cell(run.seed),
                _status(run),
                number_cell(value, decimals(findings)),
                cost_cell(float(seconds) if known else math.nan, "seconds"),
                _link(run, folder),
            ]
        )
    return Table(columns, rows, "", "l" + "l" * len(varied) + "rlrrl")


def failed_table(findings: Findings) -> Table | None:
    """Return the runs that did not finish, with the reason; None if there are none."""
    rows = []
    for run in findings.runs:
        if run.status not in ("finished", "not run"):
            where = " · ".join(run.block)
            reason = str(run.record.get("reason") or "not recorded")
            rows.append([run.unit, where, count_cell(run.seed), _status(run), reason])
    if not rows:
        return None
    columns = ["unit", "where", "seed", "status", "reason"]
    return Table(columns, rows, "Runs that did not finish", "llrll")


def environment_table(findings: Findings) -> Table | None:
    """Return the environment of the runs; None if no run recorded one.

    If it was not the same for all, each value has the number of runs.
    """
    rows = [[name, _values(values)] for name, values in environments(findings).items()]
    return Table(["what", "value"], rows, "", "ll") if rows else None


def environments(findings: Findings) -> dict[str, Counter[str]]:
    """Return each recorded property of the environment, and how many runs had each value."""
    properties: dict[str, Counter[str]] = {}
    for run in findings.runs:
        for name, value in (run.record.get("environment") or {}).items():
            properties.setdefault(str(name), Counter())[str(value)] += 1
    return properties


def _values(values: Counter[str]) -> str | Cell:
    """The values of one property of the environment, with counts if they differ."""
    if len(values) == 1:
        return next(iter(values))
    shown = ", ".join(f"{value} ({count} runs)" for value, count in values.most_common())
    return Cell(shown, look="down")


def _status(run: Run) -> Cell:
    """The status of a run, coloured if it did not finish."""
    return Cell(run.status, look="" if run.status == "finished" else "down")


def _link(run: Run, folder: str | None) -> str | Cell:
    """The key of a run, with a link to its folder if the page knows the path."""
    if folder is None or not run.record:
        return run.key
    link = f"{folder.rstrip('/')}/cells/{run.key}/".lstrip("/")
    return Cell(run.key, link=link) if SAFE_LINK.fullmatch(link) else run.key
