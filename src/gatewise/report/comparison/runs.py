"""The runs of a comparison: all of them, those that did not finish, and their environment."""

import math
from collections import Counter

from gatewise.report.charts import SAFE_LINK, Cell, Table
from gatewise.report.comparison.findings import Findings
from gatewise.report.comparison.limits import MOST_ROWS, shown_words, spread_out
from gatewise.report.comparison.tables import cost_cell, count_cell, number_cell, rate_cell
from gatewise.studies import PlannedRun

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
    display = findings.display
    columns = ["unit", *names, "rate", "role", "seed", "status", display.label, "seconds", "folder"]
    rows = []
    shown = spread_out(findings.runs, MOST_ROWS)
    for run in shown:
        value = run.value(display.metric)
        seconds = run.record.get("seconds")
        known = isinstance(seconds, int | float)
        rows.append(
            [
                run.unit,
                *(run.block[place] for place in varied),
                rate_cell(run.lr),
                run.role,
                count_cell(run.seed),
                _status(run),
                number_cell(math.nan if value is None else display.factor * value, display.digits),
                cost_cell(float(seconds) if known else math.nan, "seconds"),
                _link(run, folder),
            ]
        )
    about = shown_words(len(shown), len(findings.runs), "runs").strip()
    return Table(columns, rows, about, "l" + "l" * len(varied) + "rlrlrrl")


def failed_table(findings: Findings) -> Table | None:
    """Return the runs that did not finish, with the reason; None if there are none."""
    rows = []
    for run in findings.runs:
        if run.status not in ("finished", "not run", "damaged"):
            where = " · ".join(run.block)
            reason = str(run.record.get("reason") or "not recorded")
            rows.append([run.unit, where, count_cell(run.seed), _status(run), reason])
    if not rows:
        return None
    columns = ["unit", "where", "seed", "status", "reason"]
    about = f"Runs that did not finish{shown_words(min(len(rows), MOST_ROWS), len(rows), 'runs')}"
    return Table(columns, rows[:MOST_ROWS], about, "llrll")


def damaged_table(findings: Findings) -> Table | None:
    """Return the records that cannot be read, with the problem; None if there are none.

    Args:
        findings: The comparison.
    """
    rows = []
    for entry in findings.result.damaged[:MOST_ROWS]:
        rows.append([str(entry["key"]), str(entry["problem"])])
    about = "Damaged records, which were set aside"
    if rows:
        return Table(["run", "problem"], rows, about, "ll")
    return None


def environment_table(findings: Findings) -> Table | None:
    """Return the environment of the runs; None if no run recorded one.

    If it was not the same for all, each value has the number of runs.
    """
    rows = [[name, _values(values)] for name, values in environments(findings).items()]
    if rows:
        return Table(["what", "value"], rows, "", "ll")
    return None


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


def _status(run: PlannedRun) -> Cell:
    """The status of a run, coloured if it did not finish."""
    return Cell(run.status, look="" if run.status == "finished" else "down")


def _link(run: PlannedRun, folder: str | None) -> str | Cell:
    """The key of a run, with a link to its folder if the page knows the path."""
    if folder is None or not run.record:
        return run.key
    link = f"{folder.rstrip('/')}/cells/{run.key}/".lstrip("/")
    if SAFE_LINK.fullmatch(link):
        return Cell(run.key, link=link)
    return run.key
