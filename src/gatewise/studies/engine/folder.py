"""The folder of a study: plain files, each written whole, from which a killed study resumes.

Note [The folder of a study]

``study.json`` says what is run. ``cells/KEY/`` is the folder of one run. Its ``cell.json`` is
written last: a cell that has one is done. ``journal.jsonl`` says what happened when, for people and
for the estimate of the time left; nothing is decided by it. ``study.lock`` is held by the one
driver at work, and ``driver.json`` says which process that is. A folder of another study, of a
newer version, or with other files in it is an error, and nothing in it is changed.
"""

import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from gatewise.errors import ArgumentError, DamagedFileError, FileError, HeldError
from gatewise.files import (
    Journal,
    find_record,
    held,
    list_folder,
    make_folder,
    remove_file,
    remove_temporaries,
    write_record,
)

FORMAT = 1
STUDY = "study.json"
CELLS = "cells"
TUNING = "tuning"
JOURNAL = "journal.jsonl"
LOCK = "study.lock"
DRIVER = "driver.json"
RECORD = "cell.json"
# What a driver leaves that was killed before it had written what it runs.
EMPTY = {LOCK, DRIVER}


class StudyFolder:
    """Reads and writes the files of a study; see Note [The folder of a study].

    Args:
        path: of the folder; it need not exist.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.journal = Journal(self.path / JOURNAL)

    def check(self, name: str) -> dict[str, Any] | None:
        """Return the content of ``study.json``, None if there is none yet.

        Raises:
            ArgumentError: if the folder belongs to another study or holds other files.
            FileError: if it cannot be written to.
        """
        names = set(list_folder(self.path))
        content = None
        if STUDY in names:
            content = self.read()
            if content["name"] != name:
                raise ArgumentError(
                    f"out: {self.path} belongs to another study, and was not changed",
                    got=f"{content['name']!r}",
                    allowed=f"{name!r}",
                    fix="choose another folder",
                )
        elif names - EMPTY:
            raise ArgumentError(
                f"out: {self.path} holds other files",
                got=", ".join(sorted(names)[:3]),
                fix="name a new folder",
            )
        self._check_writable()
        return content

    def read(self) -> dict[str, Any]:
        """Return the content of ``study.json``.

        Raises:
            ArgumentError: if there is none.
        """
        content = self.find()
        if content is None:
            raise ArgumentError(
                "there is no study in this folder", got=str(self.path), fix="name the folder of one"
            )
        if not {"name", "study", "cells"} <= content.keys():
            raise DamagedFileError(
                f"{self.path / STUDY} is not a study of this version", fix="choose another folder"
            )
        return content

    def find(self) -> dict[str, Any] | None:
        """Return the content of ``study.json``; None if there is none."""
        return read_versioned(self.path / STUDY)

    def write(self, content: Mapping[str, Any]) -> None:
        """Write ``study.json``, unless it already has this content."""
        new = {"format": FORMAT, **content}
        if self.find() != new:
            write_record(self.path / STUDY, new)

    def record(self, key: str, below: str = CELLS) -> dict[str, Any] | None:
        """Return the record of a cell; None if it has not ended."""
        return read_versioned(self.path / below / key / RECORD)

    def outcomes(
        self, keys: Iterable[str], *, below: str = CELLS, retry_failed: bool = False
    ) -> dict[str, dict[str, Any] | None]:
        """Return the record of each cell, None for those to be run.

        Args:
            keys: of the cells.
            below: the sub-folder that they are in.
            retry_failed: whether to delete the records of failed cells, so that they run again.
        """
        records = {key: self.record(key, below) for key in keys}
        for key, record in records.items():
            if retry_failed and record is not None and record["status"] == "failed":
                remove_file(self.path / below / key / RECORD)
                records[key] = None
        return records

    def note(self, event: str, **fields: object) -> None:
        """Append a line to the journal."""
        self.journal.append({"event": event, "time": round(time.time(), 3), **fields})

    def driver(self) -> dict[str, Any] | None:
        """Return the driver at work, or the last one if it died."""
        try:
            return read_versioned(self.path / DRIVER)
        except DamagedFileError:
            return None

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Create the folder and hold it for the block.

        Raises:
            HeldError: naming the process that holds it, if another does.
        """
        make_folder(self.path)
        with ExitStack() as stack:
            try:
                stack.enter_context(held(self.path / LOCK))
            except HeldError as problem:
                raise HeldError(
                    f"another process is running the study in {self.path}",
                    got=_describe(self.driver()),
                    fix="wait for it to end, end it, or choose another folder",
                ) from problem
            remove_temporaries(self.path)
            write_record(self.path / DRIVER, {"format": FORMAT, **_this_process()})
            stack.callback(remove_file, self.path / DRIVER)
            yield

    def _check_writable(self) -> None:
        """Raise unless the folder, or the nearest existing one above it, can be written to."""
        existing = self.path
        while not existing.exists() and existing != existing.parent:
            existing = existing.parent
        if not existing.is_dir() or not os.access(existing, os.W_OK):
            raise FileError(
                f"out: {self.path} cannot be written to",
                got=f"{existing} is read-only or no folder",
                fix="choose another folder",
            )


def read_versioned(path: Path) -> dict[str, Any] | None:
    """Return the record in a file of the study; None if there is no file.

    Raises:
        DamagedFileError: if the file was changed, or written by a newer version.
    """
    content = find_record(path)
    if content is None:
        return None
    version = content.get("format")
    if type(version) is not int or version > FORMAT:
        raise DamagedFileError(
            f"{path} was written by a newer version, and was not changed",
            got=f"format {version!r}",
            allowed=f"up to {FORMAT}",
            fix="use that version, or choose another folder",
        )
    return content


def is_alive(driver: Mapping[str, Any] | None) -> bool:
    """Return whether the driver may be running.

    A driver on another machine cannot be asked, and counts as alive.
    """
    if driver is None:
        return False
    if driver.get("host") != socket.gethostname():
        return True
    try:
        os.kill(int(driver["process"]), 0)
    except (OSError, KeyError, TypeError, ValueError, OverflowError):
        return False
    return True


def _this_process() -> dict[str, Any]:
    """Return what identifies this process."""
    return {"process": os.getpid(), "host": socket.gethostname(), "since": round(time.time(), 3)}


def _describe(driver: Mapping[str, Any] | None) -> str:
    """Return a driver in words."""
    if driver is None:
        return "it has not written its process id yet"
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(driver.get("since", 0)))
    return f"process {driver.get('process')} on {driver.get('host')}, since {since}"
