"""Read the runs that TensorBoard and MLflow logged: one row per run, with its last values."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gatewise.errors import FileError, MissingExtraError, first_line, install_extra

EVENTS = "events.out.tfevents"
META = "meta.yaml"  # of a run or an experiment in a folder of MLflow
NAME = "run name"

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


def read_mlflow(path: Path) -> list[Row]:
    """Return one row per run that was not deleted: name, parameters and last metrics.

    Args:
        path: ``mlruns``, the folder of one experiment, or ``mlflow.db``.

    Raises:
        FileError: If MLflow cannot read it.
        MissingExtraError: If MLflow is not installed.
    """
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow 3 asks for this to read it
    try:
        from mlflow import MlflowClient
    except ImportError as problem:
        raise MissingExtraError(
            "stats: runs of MLflow need mlflow", fix=install_extra("mlflow")
        ) from problem
    is_one = (path / META).is_file()
    store = (path.parent if is_one else path).resolve()
    rows = []
    try:
        client = MlflowClient(store.as_uri() if path.is_dir() else f"sqlite:///{store}")
        experiments = [path.name]
        if not is_one:
            experiments = [each.experiment_id for each in client.search_experiments()]
        for run in client.search_runs(experiments, max_results=50_000):
            rows.append({NAME: run.info.run_name, **run.data.params, **run.data.metrics})
    except Exception as problem:  # of MLflow, or of the data base package that it needs
        raise FileError(
            "stats: MLflow cannot read these runs",
            got=f"{path}: {first_line(problem)}",
            fix="export them with the MLflow that wrote them: mlflow.search_runs().to_csv(...)",
        ) from problem
    return rows
