"""One cell of a study: what it is, and how its record is made.

Note [Keys]. A cell is known by the digest of its experiment's name and its settings, and by nothing
else: code may move and versions may change without a finished cell being lost.
"""

import errno
import json
import math
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from gatewise.errors import DamagedFileError, FileError, GatewiseError, HeldError, shorten
from gatewise.files import make_folder
from gatewise.train import (
    Checkpoints,
    Halted,
    Result,
    RunConfig,
    StopSignal,
    differences,
    environment,
    find_device,
    train,
)

Record = dict[str, Any]

DONE = "done"
DIVERGED = "diverged"
FAILED = "failed"
HELD_FOR = 600.0  # seconds that a cell waits for another process that still works on it
LOOK_AGAIN = 0.1
LONGEST_ERROR = 1000
ATTEMPT = "attempt.json"  # the processor time of attempts that were stopped; null if one was killed
LOCK = "cell.lock"
DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE}
NOT_A_RESULT = {"seconds", "processor_seconds", "machine", "starts"}


@dataclass(frozen=True)
class Cell:
    """One run of a study.

    Args:
        experiment: the name of what is repeated.
        settings: everything that decides the result; values of JSON.
        labels: what the record says about the cell before all else, for example its unit and seed.
    """

    experiment: str
    settings: Mapping[str, Any]
    labels: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """The digest of the experiment's name and the settings; see Note [Keys]."""
        words = json.dumps([self.experiment, self.settings], sort_keys=True, allow_nan=False)
        return sha256(words.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class CellCall:
    """What the work of a cell is called with.

    Args:
        settings: of the cell.
        labels: of the cell.
        folder: the cell's own; what is written here survives an interruption.
        stop: says whether a stop was asked for.
    """

    settings: Mapping[str, Any]
    labels: Mapping[str, Any]
    folder: Path
    stop: StopSignal

    @property
    def name(self) -> str:
        """The name among the labels."""
        return str(self.labels.get("name", ""))

    def train(self, config: RunConfig, name: str = "run", **options: Any) -> Result:
        """Train in the sub-folder ``name``, resuming from its last checkpoint.

        Args:
            config: the run.
            name: a name for each run of the cell.
            **options: passed to :func:`gatewise.train.train`.

        Raises:
            Halted: if a stop was asked for. The next attempt at the cell resumes.
        """
        folder = self.folder / name
        _remove_inexact(folder, options.get("device"))
        result = train(config, folder, stop=self.stop, **options)
        if result is None:
            raise Halted
        return result


# What a cell does: returns the fields of its record. It can be sent to another process.
Work = Callable[[CellCall], Mapping[str, Any]]


def run_cell(work: Work, cell: Cell, folder: Path, stop: StopSignal) -> Record | None:
    """Do the work of a cell in its folder and return its record; None if it was stopped.

    An error of the work becomes a record with the status ``failed``. An error of the disk is
    raised: it says nothing about the cell.
    """
    make_folder(folder)
    with _cell_lock(folder, stop) as is_free:
        if not is_free:
            return None
        before = _time_before(folder)
        _note_attempt(folder, None)
        begin, clock = time.process_time(), time.perf_counter()
        try:
            content = work(CellCall(cell.settings, cell.labels, folder, stop))
        except Halted:
            spent = time.process_time() - begin
            _note_attempt(folder, None if before is None else before + spent)
            return None
        except Exception as problem:  # whatever a unit or a network raises is a result
            if _is_of_the_disk(problem):
                raise
            content = failure(error_words(problem), cell)
        spent = time.process_time() - begin
        # After a kill nobody knows how long the earlier attempts took.
        total = None if before is None else round(before + spent, 3)
        record = {
            **cell.labels,
            "status": DONE,
            "error": None,
            "seconds": round(time.perf_counter() - clock, 3),
            **content,
            "processor_seconds": total,
        }
        return plain(record)


def failure(error: str, cell: Cell) -> Record:
    """Return the record of a cell that cannot be run."""
    words = shorten(error, LONGEST_ERROR)
    return plain({**cell.labels, "status": FAILED, "error": words, "value": None})


def error_words(problem: BaseException) -> str:
    """Return an error in words, with the place in the code unless gatewise explains it itself."""
    if isinstance(problem, GatewiseError):
        return str(problem)
    frames = traceback.extract_tb(problem.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(problem).__name__}: {problem}{place}"


def without_times(record: Record) -> Record:
    """Return what a record says about the result: without times and machine."""
    return {name: value for name, value in record.items() if name not in NOT_A_RESULT}


def plain_config(config: RunConfig) -> dict[str, Any]:
    """Return a configuration as settings of a cell: what was set, and no defaults."""
    return config.model_dump(mode="json", exclude_unset=True)


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


@contextmanager
def _cell_lock(folder: Path, stop: StopSignal) -> Iterator[bool]:
    """Hold a cell's folder, after waiting for a process that still works there.

    Yields:
        Whether the folder is held; not if a stop was asked for meanwhile.
    """
    lock = FileLock(folder / LOCK)
    until = time.monotonic() + HELD_FOR
    while not stop.asked:
        try:
            lock.acquire(timeout=LOOK_AGAIN)
            break
        except Timeout:
            if time.monotonic() > until:
                raise HeldError(
                    "another process is at work on this run",
                    got=str(folder),
                    fix="end it, and rerun the same command",
                ) from None
    try:
        yield lock.is_locked
    finally:
        lock.release()


def _time_before(folder: Path) -> float | None:
    """Return the processor time of earlier attempts; None if one was killed."""
    try:
        return json.loads((folder / ATTEMPT).read_text())
    except FileNotFoundError:
        return 0.0
    except (OSError, ValueError):
        return None


def _note_attempt(folder: Path, seconds: float | None) -> None:
    """Write down the processor time so far."""
    part = folder / f"{ATTEMPT}.part"
    part.write_text(json.dumps(seconds))
    part.replace(folder / ATTEMPT)


def _is_of_the_disk(problem: Exception) -> bool:
    """Return whether an error is one of the disk, and says nothing about the cell."""
    if isinstance(problem, FileError):
        return not isinstance(problem, DamagedFileError)
    return isinstance(problem, OSError) and problem.errno in DISK_ERRORS


def _remove_inexact(folder: Path, device: Any) -> None:
    """Delete checkpoints that would not lead to the bits of an uninterrupted run."""
    if not folder.is_dir():
        return
    checkpoints = Checkpoints(folder)
    try:
        checkpoint = checkpoints.load()
    except DamagedFileError:
        return checkpoints.remove()
    if checkpoint is None:
        return
    with suppress(KeyError):
        if not differences(checkpoint.environment, environment(device=find_device(device))):
            return
    checkpoints.remove()
