"""A result on disc: the picture, the curves and numbers as CSV, and everything as sealed JSON, written last."""

import csv
import io
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gatewise.files import make_folder, write_bytes, write_json, write_text
from gatewise.papers.common.drawing import png
from gatewise.papers.common.records import Panel, Picture, Result

PICTURE, CURVES, ROWS, RESULT = "figure.png", "curves.csv", "rows.csv", "results.json"
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
    """Write all files of ``result`` into ``folder``.

    A reader that finds results.json finds the others whole.
    """
    make_folder(folder)
    done = replace(result, files=(PICTURE, CURVES, ROWS, RESULT))
    write_bytes(folder / PICTURE, png(_title(done), done.findings.panels))
    write_text(
        folder / CURVES, _table(("panel", "line", "theory", "x", "mean", "spread"), _points(done))
    )
    rows = done.to_dict()["findings"]["rows"]
    write_text(
        folder / ROWS, _table(ROW_COLUMNS, ([row[name] for name in ROW_COLUMNS] for row in rows))
    )
    write_json(folder / RESULT, done.to_dict())
    return done


def _title(result: Result) -> str:
    reduced = f"; {result.reduced}" if result.reduced else ""
    seeds = "1 seed" if len(result.seeds) == 1 else f"{len(result.seeds)} seeds"
    return f"{result.experiment}: {result.title} ({seeds}{reduced})"


def _points(result: Result) -> Iterable[list[Any]]:
    return (point for panel in result.findings.panels for point in _points_of(panel))


def _points_of(panel: Panel | Picture) -> Iterable[list[Any]]:
    if isinstance(panel, Picture):
        return  # it is in the picture alone
    for line in panel.lines:
        spreads = line.spread if line.spread is not None else [None] * len(line.x)
        for x, mean, spread in zip(line.x, line.mean, spreads, strict=True):
            yield [panel.title, line.label, line.theory, x, *map(_short, (mean, spread))]


def _short(value: float | None) -> float | None:
    """Six digits: a picture's worth; the rows have all of them."""
    return None if value is None else float(f"{value:.6g}")


def _table(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue()
