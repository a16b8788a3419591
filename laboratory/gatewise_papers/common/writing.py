"""Write a result: the picture, curves and rows as CSV, and last everything as JSON."""

import csv
import io
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gatewise.files import make_folder, write_bytes, write_json, write_text
from gatewise_papers.common.drawing import svg
from gatewise_papers.common.records import Picture, Result

PICTURE = "figure.svg"
CURVES = "curves.csv"
ROWS = "rows.csv"
RESULT = "results.json"
CURVE_COLUMNS = ("panel", "line", "theory", "x", "mean", "spread")
ROW_COLUMNS = (
    "what",
    "published",
    "closed_form",
    "ours",
    "spread",
    "seeds",
    "left_out",
    "within",
    "agrees",
    "scale",
)


def write_result(result: Result, folder: Path) -> Result:
    """Write all files of ``result`` into ``folder`` and return it with their names.

    ``results.json`` is written last: if it is there, the other files are complete.
    """
    make_folder(folder)
    panels = result.findings.panels
    files = (CURVES, ROWS, RESULT)
    if panels:
        files = (PICTURE, *files)
    result = replace(result, files=files)
    content = result.to_dict()
    rows = []
    for record in content["findings"]["rows"]:
        rows.append([record[name] for name in ROW_COLUMNS])
    if panels:
        write_bytes(folder / PICTURE, svg(_title(result), panels))
    write_text(folder / CURVES, _csv(CURVE_COLUMNS, _points(result)))
    write_text(folder / ROWS, _csv(ROW_COLUMNS, rows))
    write_json(folder / RESULT, content)
    return result


def _title(result: Result) -> str:
    """Return the title of the picture: experiment, seeds and what is reduced."""
    reduced = f"; {result.reduced}" if result.reduced else ""
    seeds = "1 seed" if len(result.seeds) == 1 else f"{len(result.seeds)} seeds"
    return f"{result.experiment}: {result.title} ({seeds}{reduced})"


def _points(result: Result) -> Iterable[list[Any]]:
    """Yield the points of all curves; images are in the picture alone."""
    for panel in result.findings.panels:
        if isinstance(panel, Picture):
            continue
        for line in panel.lines:
            spreads = line.spread if line.spread is not None else [None] * len(line.x)
            for x, mean, spread in zip(line.x, line.mean, spreads, strict=True):
                yield [panel.title, line.label, line.theory, x, _short(mean), _short(spread)]


def _short(value: float | None) -> float | None:
    """Round to six digits, which is enough to draw; the rows have all digits."""
    return None if value is None else float(f"{value:.6g}")


def _csv(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return a table as CSV text."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue()
