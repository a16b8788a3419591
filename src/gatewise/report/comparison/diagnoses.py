"""Diagnoses of chosen runs on the page of a comparison: those whose folder holds one."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gatewise.errors import FileError
from gatewise.files import confine
from gatewise.report.charts import SAFE_LINK, Cell
from gatewise.report.comparison.findings import Findings, Run
from gatewise.report.sheet import Folded, Text

RECORD, PAGE = "diagnosis.json", "index.html"
LARGEST = 20_000_000  # bytes of a record that is read


def read_diagnoses(study: Path, keys: list[str]) -> dict[str, Mapping[str, Any]]:
    """By the key of a run, the diagnosis that lies in its folder.

    What cannot be read as one is left out.
    """
    found = {}
    for key in keys:
        try:
            path = confine(study, f"cells/{key}/{RECORD}")
            if path.is_file() and path.stat().st_size <= LARGEST:
                found[key] = json.loads(path.read_text(encoding="utf-8"))
        except (FileError, OSError, ValueError, RecursionError):
            continue
    return {key: record for key, record in found.items() if isinstance(record, Mapping)}


def diagnosis_items(
    found: Findings, diagnoses: Mapping[str, Mapping[str, Any]], folder: str | None
) -> Iterator[Folded]:
    """For each run with a diagnosis, what it advises, and a link to its own page."""
    for run in found.runs:
        if run.key in diagnoses:
            name = f"{run.unit} on {' · '.join(run.block)}, seed {run.seed}"
            yield Folded(
                name, [Text(list(_advice(diagnoses[run.key])), points=True), *_link(run, folder)]
            )


def _advice(record: Mapping[str, Any]) -> Iterator[str]:
    given = record.get("advice")
    texts = (
        [str(each["text"]) for each in given if isinstance(each, Mapping) and "text" in each]
        if isinstance(given, list)
        else []
    )
    yield from texts or ["No advice: nothing that was found supports any."]


def _link(run: Run, folder: str | None) -> list[Text]:
    link = f"{folder.rstrip('/')}/cells/{run.key}/{PAGE}".lstrip("/") if folder is not None else ""
    return [Text([[Cell("The whole diagnosis", link=link)]])] if SAFE_LINK.fullmatch(link) else []
