"""Read the runs that TensorBoard and MLflow logged: one row per run, with its last values."""

import math
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from gatewise.errors import FileError, MissingExtraError, install_extra

EVENTS = "events.out.tfevents"
META = "meta.yaml"  # of a run or an experiment in a folder of MLflow
NAME = "run name"
MOST_RUNS = 100_000

Row = dict[str, Any]


def read_event_files(folder: Path, files: Sequence[Path] | None = None) -> list[Row]:
    """Return one row per run: its name and the last value of every scalar.

    Args:
        folder: Of all runs. A run is a folder in it that has event files.
        files: The event files; by default all below ``folder``.

    Raises:
        FileError: If an event file cannot be read.
        MissingExtraError: If TensorBoard is not installed.
    """
    if files is None:
        files = sorted(folder.rglob(f"{EVENTS}*"))
    runs: dict[Path, dict[str, tuple[int, float]]] = {}
    for path in files:
        last = runs.setdefault(path.parent, {})
        for tag, step, value in _scalars(path):
            if tag not in last or step >= last[tag][0]:
                last[tag] = (step, value)
    rows = []
    for place, scalars in runs.items():
        name = folder.name if place == folder else place.relative_to(folder).as_posix()
        if scalars:
            rows.append({NAME: name, **{tag: value for tag, (_, value) in scalars.items()}})
    return rows


def _scalars(path: Path) -> list[tuple[str, int, float]]:
    """Return tag, step and value of every scalar in an event file; one that is cut off ends it."""
    try:
        from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
        from tensorboard.util.tensor_util import make_ndarray
    except ImportError as problem:
        raise MissingExtraError(
            "stats: event files need tensorboard", fix=install_extra("tensorboard")
        ) from problem
    scalars = []
    try:
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                if not value.HasField("tensor"):
                    continue
                array = make_ndarray(value.tensor)
                if array.size == 1 and array.dtype.kind == "f":
                    scalars.append((value.tag, event.step, float(array.item())))
    except Exception as problem:  # the reader raises errors of its own, and any on damaged files
        raise FileError(
            "stats: the event file cannot be read", got=f"{path}: {problem}"
        ) from problem
    return scalars


def is_mlflow_folder(folder: Path) -> bool:
    """Return whether a folder holds MLflow experiments, or is that of one experiment."""
    return any(next(folder.glob(f"{depth}{META}"), None) for depth in ("*/", "*/*/"))


def read_mlflow_folder(folder: Path) -> list[Row]:
    """Return one row per run that was not deleted: name, parameters and last metrics.

    Args:
        folder: ``mlruns``, or the folder of one experiment.

    Raises:
        FileError: If the folder cannot be read.
        MissingExtraError: If MLflow is not installed.
    """
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow 3 asks for this to read it
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ImportError as problem:
        raise MissingExtraError(
            "stats: a folder of MLflow needs mlflow", fix=install_extra("mlflow")
        ) from problem
    is_one = (folder / META).is_file()
    store = folder.parent if is_one else folder
    rows = []
    try:
        client = MlflowClient(tracking_uri=store.resolve().as_uri())
        experiments = [folder.name]
        if not is_one:
            experiments = [each.experiment_id for each in client.search_experiments()]
        for run in client.search_runs(experiments, max_results=50_000):
            rows.append({NAME: run.info.run_name, **run.data.params, **run.data.metrics})
    except MlflowException as problem:
        raise FileError(
            "stats: the folder of MLflow cannot be read", got=f"{folder}: {problem}"
        ) from problem
    return rows


def read_mlflow_database(path: Path) -> list[Row]:
    """Return one row per run of an SQLite data base that was not deleted.

    MLflow itself reads only data bases of its own version.

    Args:
        path: ``mlflow.db``. It is opened for reading only.

    Raises:
        FileError: If it is not a data base of MLflow.
    """
    rows: dict[str, Row] = {}
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as base:
            runs = base.execute(
                "SELECT run_uuid, name FROM runs WHERE lifecycle_stage != 'deleted' LIMIT ?",
                [MOST_RUNS],
            )
            rows = {run: {NAME: name or run} for run, name in runs}
            entries = base.execute("SELECT run_uuid, key, value, 0 FROM params").fetchall()
            entries += base.execute("SELECT run_uuid, key, value, is_nan FROM latest_metrics")
            for run, key, value, is_nan in entries:
                if run in rows:
                    rows[run][key] = math.nan if is_nan else value
    except sqlite3.Error as problem:
        raise FileError(
            "stats: this is not a data base of MLflow", got=f"{path}: {problem}"
        ) from problem
    return list(rows.values())
