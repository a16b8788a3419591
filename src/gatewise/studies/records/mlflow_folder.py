"""Read the runs of an MLflow folder (its file store) or data base (SQLite), without MLflow.

Note [MLflow folder]. ``EXPERIMENT/RUN/`` has ``meta.yaml``, one file per parameter in ``params/``
(its value), one per metric in ``metrics/`` (lines of time, value and step) and one per tag in
``tags/``. Names with a slash are folders.
"""

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from gatewise.errors import FileError

META = "meta.yaml"
PARTS = ("params", "metrics", "tags")
RUN_NAME = "mlflow.runName"
MOST_RUNS = 100_000
LONGEST = 5_000_000  # bytes of one file


def is_mlflow_folder(folder: Path) -> bool:
    """Return whether a folder holds MLflow experiments, one experiment or one run."""
    return next(_runs(folder), None) is not None


def read_mlflow_folder(folder: Path) -> list[dict[str, Any]]:
    """Return one row per run that was not deleted: name, status, parameters and last metrics.

    Args:
        folder: ``mlruns``, or the folder of one experiment.

    Raises:
        FileError: If a file of a run cannot be read.
    """
    rows = []
    for run in _runs(folder):
        if len(rows) >= MOST_RUNS:
            raise FileError("stats: too many runs", got=str(folder), allowed=MOST_RUNS)
        meta = _meta(run / META)
        if meta.get("lifecycle_stage") == "deleted":
            continue
        row: dict[str, Any] = {"run name": _tag(run) or meta.get("run_name") or run.name}
        for path, name in _entries(run / "params"):
            row[name] = _text(path).strip()
        for path, name in _entries(run / "metrics"):
            row[name] = _last_value(path)
        rows.append(row)
    return rows


def read_mlflow_database(path: Path) -> list[dict[str, Any]]:
    """Return one row per run of an SQLite data base that was not deleted.

    Args:
        path: ``mlflow.db``. It is opened for reading only.

    Raises:
        FileError: If it is not a data base of MLflow.
    """
    rows: dict[str, dict[str, Any]] = {}
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as base:
            runs = base.execute(
                "SELECT run_uuid, name, lifecycle_stage FROM runs LIMIT ?", [MOST_RUNS]
            )
            for run, name, stage in runs:
                if stage != "deleted":
                    rows[run] = {"run name": name or run}
            for run, key, value in base.execute("SELECT run_uuid, key, value FROM params"):
                if run in rows:
                    rows[run][key] = value
            metrics = base.execute("SELECT run_uuid, key, value, is_nan FROM latest_metrics")
            for run, key, value, is_nan in metrics:
                if run in rows:
                    rows[run][key] = math.nan if is_nan else value
    except sqlite3.Error as problem:
        raise FileError(
            "stats: this is not a data base of MLflow", got=f"{path}: {problem}"
        ) from problem
    return list(rows.values())


def _runs(folder: Path) -> Iterator[Path]:
    """Yield the folders of runs in a folder, at most two levels below."""
    for depth in ("", "*", "*/*"):
        for meta in sorted(folder.glob(f"{depth}/{META}" if depth else META)):
            if any((meta.parent / part).is_dir() for part in PARTS):
                yield meta.parent


def _entries(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files of a folder with their names; slashes in a name are folders."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield path, path.relative_to(folder).as_posix()


def _tag(run: Path) -> str:
    """Return the name that the run was given; empty if it has none."""
    path = run / "tags" / RUN_NAME
    if path.is_file():
        return _text(path).strip()
    return ""


def _meta(path: Path) -> dict[str, str]:
    """Return the plain entries of a run's meta file."""
    entries = {}
    for line in _text(path).splitlines():
        key, mark, value = line.partition(":")
        if mark and not key.startswith((" ", "-", "#")):
            entries[key.strip()] = value.strip().strip("'\"")
    return entries


def _last_value(path: Path) -> str | None:
    """Return the value of the last line of a metric, as text."""
    for line in reversed(_text(path).splitlines()):
        parts = line.split()
        if len(parts) >= 2:
            return parts[1]
    return None


def _text(path: Path) -> str:
    """Return the text of a file."""
    try:
        if path.stat().st_size > LONGEST:
            raise FileError("stats: the file is too large", got=str(path))
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as problem:
        if isinstance(problem, FileError):
            raise
        raise FileError("stats: the file cannot be read", got=f"{path}: {problem}") from problem
