"""Diagnoses of single runs on the page of a comparison: those that are in the folder of a run."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gatewise.errors import FileError
from gatewise.files import confine
from gatewise.report.charts import SAFE_LINK, Cell
from gatewise.report.comparison.findings import Findings
from gatewise.report.sheet import Folded, Text
from gatewise.studies import PlannedRun

RECORD, PAGE = "diagnosis.json", "index.html"
LARGEST = 20_000_000  # bytes of a record that is read


def read_diagnoses(study: Path, keys: list[str]) -> dict[str, Mapping[str, Any]]:
    """Return the diagnosis in the folder of each run, by the key of the run.

    A file that cannot be read as a diagnosis is left out.
    """
    diagnoses: dict[str, Mapping[str, Any]] = {}
    for key in keys:
        # Most runs have none. A look costs little, and a path is checked before it is read.
        if not os.path.lexists(study / "cells" / key / RECORD):
            continue
        try:
            path = confine(study, f"cells/{key}/{RECORD}")
            if not path.is_file() or path.stat().st_size > LARGEST:
                continue
            record = json.loads(path.read_text(encoding="utf-8"))
        except (FileError, OSError, ValueError, RecursionError):
            continue
        if isinstance(record, Mapping):
            diagnoses[key] = record
    return diagnoses


def diagnosis_items(
    findings: Findings,
    diagnoses: Mapping[str, Mapping[str, Any]],
    folder: str | None,
) -> Iterator[Folded]:
    """Yield the advice of each run that has a diagnosis, with a link to its page.

    Args:
        findings: The comparison.
        diagnoses: The records, by the key of the run.
        folder: The path from the page to the study's folder; None for no links.
    """
    for run in findings.runs:
        if run.key in diagnoses:
            name = f"{run.unit} on {' · '.join(run.block)}, seed {run.seed}"
            items = [Text(_advice(diagnoses[run.key]), points=True), *_link(run, folder)]
            yield Folded(name, items)


def _advice(record: Mapping[str, Any]) -> list[str]:
    """The advice of a diagnosis, one line each."""
    advice = record.get("advice")
    texts = []
    for entry in advice if isinstance(advice, list) else ():
        if isinstance(entry, Mapping) and "text" in entry:
            texts.append(str(entry["text"]))
    return texts or ["No problems found."]


def _link(run: PlannedRun, folder: str | None) -> list[Text]:
    """A link to the page of a diagnosis; nothing if the path is not safe."""
    if folder is None:
        return []
    link = f"{folder.rstrip('/')}/cells/{run.key}/{PAGE}".lstrip("/")
    if SAFE_LINK.fullmatch(link):
        return [Text([[Cell("Full diagnosis", link=link)]])]
    return []
