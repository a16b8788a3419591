"""Run one cell in its folder and write its record once.

A cell's work is a training run, or any function that returns plain values. Several processes may
attempt one cell: the record is that of the first to finish.
"""

import errno
import importlib
import json
import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from gatewise.data import DataSet, load
from gatewise.errors import DamagedFileError, FileError, GatewiseError, HeldError, shorten
from gatewise.files import make_folder, read_json, write_json, write_record_once
from gatewise.studies.engine.folder import FORMAT, RECORD, read_versioned
from gatewise.train import (
    Checkpoints,
    Halted,
    Pace,
    Result,
    RunConfig,
    StopSignal,
    differences,
    environment,
    find_device,
    records,
    run_config,
    train,
)

# Seconds that a cell waits for a process that was thought lost and still works on it.
HELD_FOR = 3600.0
LOOK_AGAIN = 0.2
LONGEST_REASON = 500
STOPPED = "stopped.json"  # in the folder of a cell whose last attempt was stopped on request
NO_CURVE = ("step", "lr")  # of the metrics of an epoch
NO_RESULT = ("metrics", "best", "seconds", "process_seconds", "environment", "weights_sha256")
COSTS = ("parameters", "flops", "saved_bytes")
# Errors of the system that say nothing about the cell, whoever wrote the file.
DISC_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE}


@dataclass(frozen=True)
class Task:
    """A cell to run, in plain values, so that it can be sent to any process."""

    cell: Mapping[str, Any]
    folder: str  # the folder that holds the folders of the cells
    cost: Mapping[str, Any] = field(default_factory=dict)
    pace: Mapping[str, Any] = field(default_factory=dict)
    data_folder: str | None = None
    device: str = "cpu"  # where it is trained
    function: str | None = None  # "package.module:name"; None: train the cell's ``config``

    @property
    def key(self) -> str:
        """The key of the cell."""
        return self.cell["key"]

    @property
    def place(self) -> Path:
        """The folder of the cell."""
        return Path(self.folder) / self.key

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, which ``Task(**values)`` takes."""
        return asdict(self)


@dataclass(frozen=True)
class CellCall:
    """What the function of a cell is called with."""

    name: str
    settings: Mapping[str, Any]
    folder: Path  # the cell's own; what is written here survives an interruption
    stop: StopSignal

    def train(self, config: RunConfig, name: str = "run", **options: Any) -> Result:
        """Train in the sub-folder ``name``, resuming from its last checkpoint.

        Args:
            config: the run.
            name: a name for each run of the cell.
            **options: passed to :func:`gatewise.train.train`.

        Raises:
            Halted: if a stop was asked for. The next attempt at the cell resumes.
        """
        result = train(config, self.folder / name, stop=self.stop, **options)
        if result is None:
            raise Halted
        return result


@dataclass(frozen=True)
class Outcome:
    """How an attempt at a cell ended.

    ``finished`` and ``diverged``: the record is written. ``failed``: it is written too, with the
    reason. ``stopped``: on request; the cell is resumed later. ``lost``: a file could not be read
    or written, and nothing is recorded; ``disc`` if that concerns all cells.
    """

    status: str
    reason: str | None = None
    disc: bool = False


# What a cell does: returns the fields of its record, or None if it was stopped.
Work = Callable[[StopSignal], Mapping[str, Any] | None]


def run_cell(
    task: Task,
    stop: StopSignal | None = None,
    work: Work | None = None,
) -> Outcome:
    """Run the cell from wherever it is; every error becomes an outcome.

    Args:
        task: the cell.
        stop: ends the attempt early if a stop is asked for.
        work: what to do, if not what the task says.
    """
    try:
        return attempt_cell(task, stop or StopSignal(), work)
    except FileError as problem:
        concerns_one_cell = isinstance(problem, DamagedFileError | HeldError)
        reason = shorten(str(problem), LONGEST_REASON)
        return Outcome("lost", reason, disc=not concerns_one_cell)
    except GatewiseError as problem:
        return fail(task, str(problem))
    except OSError as problem:
        if problem.errno in DISC_ERRORS:
            return Outcome("lost", shorten(str(problem), LONGEST_REASON), disc=True)
        return fail(task, f"{type(problem).__name__}: {problem}")
    except Exception as problem:  # whatever a unit or a network raises is a result with a reason
        return fail(task, f"{type(problem).__name__}: {problem}")


def attempt_cell(task: Task, stop: StopSignal, work: Work | None = None) -> Outcome:
    """Run the cell as :func:`run_cell` does, and let errors pass to the caller."""
    record = read_versioned(task.place / RECORD)
    if record is not None:
        return Outcome(record["status"], record["reason"])
    return run_and_record(task, stop, work)


def run_and_record(
    task: Task,
    stop: StopSignal,
    work: Work | None = None,
) -> Outcome:
    """Do the work and write the record, unless another process wrote one meanwhile."""
    begin = time.process_time() - _seconds_before(task)
    try:
        content = work(stop) if work else _work_of(task, stop)
    except Halted:
        content = None
    seconds = round(time.process_time() - begin, 3)
    make_folder(task.place)
    if content is None:
        write_json(task.place / STOPPED, {"process_seconds": seconds})
        return Outcome("stopped")
    whole = _record(task, content, process_seconds=seconds)
    write_record_once(task.place / RECORD, whole)
    return Outcome(content["status"], content["reason"])


def _seconds_before(task: Task) -> float:
    """Return the processor time of attempts at the cell that were stopped on request."""
    path = task.place / STOPPED
    return read_json(path)["process_seconds"] if path.exists() else 0.0


def fail(task: Task, reason: str) -> Outcome:
    """Record that the cell cannot be run."""
    make_folder(task.place)
    content = {"status": "failed", "reason": shorten(reason, LONGEST_REASON)}
    if task.function is None:
        content |= {"curve": [], **dict.fromkeys(NO_RESULT)}
    record = _record(task, content)
    write_record_once(task.place / RECORD, record)
    written = read_versioned(task.place / RECORD) or record
    return Outcome(written["status"], written["reason"])


def training_content(result: Result | None, folder: Path) -> dict[str, Any] | None:
    """Return the record's fields for a training run in ``folder``; None if it was stopped."""
    if result is None:
        return None
    curve = []
    for line in records(folder):
        curve.append({k: v for k, v in line.items() if k not in NO_CURVE})
    return {
        "status": result.status,
        "reason": result.reason,
        "metrics": result.metrics,
        "best": result.best,
        "curve": curve,
        "seconds": result.seconds,
        "starts": result.starts,
        "environment": result.environment,
        "device": result.environment.get("device", "cpu"),
        "inexact": result.inexact,
        "weights_sha256": result.weights_sha256,
        "state_sha256": result.state_sha256,
        "data_sha256": result.data_sha256,
        "correct": result.correct,
        "examples": result.examples,
    }


def value_content(value: Any) -> dict[str, Any]:
    """Return the record's fields for the value that a function returned."""
    return {"status": "finished", "reason": None, "value": plain(value)}


def plain(value: Any) -> Any:
    """Return ``value`` in the types of JSON; numbers that are not finite become None."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _work_of(task: Task, stop: StopSignal) -> Mapping[str, Any] | None:
    """Do what the task says: call its function, or train its configuration."""
    if task.function is None:
        result = _train(run_config(**task.cell["config"]), task, stop)
        return training_content(result, task.place)
    module, _, name = task.function.partition(":")
    function = getattr(importlib.import_module(module), name)
    call = CellCall(task.cell["name"], task.cell["settings"], task.place, stop)
    return value_content(function(call))


def _train(config: RunConfig, task: Task, stop: StopSignal) -> Result | None:
    """Train; if a process thought lost still works on the cell, wait for its result."""
    data = _data(config.data, json.dumps(config.data_options, sort_keys=True), task.data_folder)
    until = time.monotonic() + HELD_FOR
    while True:
        try:
            remove_inexact_checkpoints(task.place, task.device)
            with warnings.catch_warnings():
                # They were shown when the study was planned; nobody reads them here.
                warnings.simplefilter("ignore")
                return train(
                    config,
                    task.place,
                    data=data,
                    device=task.device,
                    pace=Pace(**task.pace),
                    stop=stop,
                )
        except HeldError:
            if time.monotonic() > until or stop.asked:
                raise
            time.sleep(LOOK_AGAIN)


@lru_cache(maxsize=2)
def _data(name: str, options: str, folder: str | None) -> DataSet:
    """Load a data set; the arguments are hashable so that it can be cached."""
    return load(name, folder=folder, **json.loads(options))


def remove_inexact_checkpoints(folder: Path, device: str) -> None:
    """Delete checkpoints that would not lead to the bits of an uninterrupted run.

    The cell then starts again from the beginning.

    Args:
        folder: of the cell.
        device: where it is trained now.
    """
    checkpoints = Checkpoints(folder)
    try:
        checkpoint = checkpoints.load()
    except DamagedFileError:
        return checkpoints.remove()
    now = environment(device=find_device(device))
    if checkpoint is not None and differences(checkpoint.environment, now):
        checkpoints.remove()


def _record(task: Task, content: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return the whole record: labels of the cell, what came out, and the counted costs."""
    labels = {k: v for k, v in task.cell.items() if k not in ("config", "settings")}
    costs = {} if task.function is not None else {name: task.cost.get(name) for name in COSTS}
    status = {"status": content["status"]}  # first: a status command reads no more
    return {"format": FORMAT, **status, **labels, **content, **more, **costs}
