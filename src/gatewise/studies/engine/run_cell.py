"""One cell: trained in its own folder, and its record written once, by whoever is first."""

import json
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from gatewise.data import DataSet, load
from gatewise.errors import DamagedFileError, FileError, GatewiseError, HeldError, shorten
from gatewise.files import make_folder, write_record_once
from gatewise.studies.engine.folder import FORMAT, RECORD, read_versioned
from gatewise.train import (
    Checkpoints,
    Pace,
    Result,
    RunConfig,
    StopSignal,
    differences,
    environment,
    records,
    run_config,
    train,
)

# seconds that a cell waits for a process that was thought lost and is still at work on it
HELD_FOR = 3600.0
LOOK_AGAIN = 0.2
CURVE = (
    "epoch",
    "train_loss",
    "train_accuracy",
    "held_loss",
    "held_accuracy",
    "test_loss",
    "test_accuracy",
)


@dataclass(frozen=True)
class Task:
    """A cell to be carried out, in plain values, so that it can be told to any process."""

    cell: Mapping[str, Any]
    folder: str  # the folder that holds the cells' folders
    cost: Mapping[str, Any] = field(default_factory=dict)
    pace: Mapping[str, Any] = field(default_factory=dict)
    data_folder: str | None = None

    @property
    def key(self) -> str:
        """The cell's."""
        return self.cell["key"]

    @property
    def place(self) -> Path:
        """The cell's own folder."""
        return Path(self.folder) / self.key

    def to_dict(self) -> dict[str, Any]:
        """Plain values, which ``Task(**values)`` takes."""
        return asdict(self)


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended.

    ``finished`` and ``diverged``: the record is there. ``failed``: it is too, with the reason.
    ``stopped``: asked to, and to be gone on with. ``lost``: a file could not be read or written,
    and nothing is recorded; ``disc`` if that concerns all cells.
    """

    status: str
    reason: str | None = None
    disc: bool = False


Run = Callable[[StopSignal], Result | None]


def carry_out(task: Task, stop: StopSignal | None = None, run: Run | None = None) -> Outcome:
    """Train the cell to its end, from wherever it is; see :class:`Outcome`.

    ``run`` does it, if not the library.
    """
    try:
        there = read_versioned(task.place / RECORD)
        if there is not None:
            return Outcome(there["status"], there["reason"])
        return _trained(task, stop or StopSignal(), run)
    except FileError as problem:
        damaged = isinstance(problem, DamagedFileError | HeldError)
        return Outcome("lost", shorten(str(problem), 500), disc=not damaged)
    except GatewiseError as problem:
        return fail(task, str(problem))
    except Exception as problem:  # whatever a unit or a network raises: a result, with its reason
        return fail(task, f"{type(problem).__name__}: {problem}")


def fail(task: Task, reason: str) -> Outcome:
    """Record that the cell cannot be carried out."""
    make_folder(task.place)
    empty = dict.fromkeys(
        ("metrics", "best", "seconds", "process_seconds", "environment", "weights_sha256")
    )
    found = _record(task, status="failed", reason=shorten(reason, 500), curve=[], **empty)
    write_record_once(task.place / RECORD, found)
    there = read_versioned(task.place / RECORD) or found
    return Outcome(there["status"], there["reason"])


def _trained(task: Task, stop: StopSignal, run: Run | None = None) -> Outcome:
    begin = time.process_time()
    result = run(stop) if run else _run(run_config(**task.cell["config"]), task, stop)
    if result is None:
        return Outcome("stopped")
    found = _record(
        task,
        status=result.status,
        reason=result.reason,
        metrics=result.metrics,
        best=result.best,
        curve=[
            {name: line[name] for name in CURVE if name in line} for line in records(task.place)
        ],
        seconds=result.seconds,
        process_seconds=round(time.process_time() - begin, 3),
        starts=result.starts,
        environment=result.environment,
        inexact=result.inexact,
        weights_sha256=result.weights_sha256,
        state_sha256=result.state_sha256,
        data_sha256=result.data_sha256,
    )
    write_record_once(task.place / RECORD, found)
    return Outcome(result.status, result.reason)


def _run(config: RunConfig, task: Task, stop: StopSignal) -> Result | None:
    """The run; if an orphan of a lost worker is still at it, what that one comes to."""
    data = _data(config.data, json.dumps(config.data_options, sort_keys=True), task.data_folder)
    until = time.monotonic() + HELD_FOR
    while True:
        try:
            _forget_other_conditions(task.place)
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore"
                )  # said when the study was planned; here nobody reads them
                return train(config, task.place, data=data, pace=Pace(**task.pace), stop=stop)
        except HeldError:
            if time.monotonic() > until or stop.asked:
                raise
            time.sleep(LOOK_AGAIN)


@lru_cache(maxsize=2)
def _data(name: str, options: str, folder: str | None) -> DataSet:
    return load(name, folder=folder, **json.loads(options))


def _forget_other_conditions(folder: Path) -> None:
    """Delete checkpoints that would not lead to the bits of an uninterrupted run.

    The cell begins anew.
    """
    checkpoints = Checkpoints(folder)
    try:
        saved = checkpoints.load()
    except DamagedFileError:
        return checkpoints.remove()
    if saved is not None and differences(saved.environment, environment()):
        checkpoints.remove()


def _record(task: Task, **found: Any) -> dict[str, Any]:
    about = {name: value for name, value in task.cell.items() if name != "config"}
    costs = {name: task.cost.get(name) for name in ("parameters", "flops", "saved_bytes")}
    return {"format": FORMAT, **about, **found, **costs}
