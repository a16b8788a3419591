"""The folder of a study: plain files, each written whole, that a killed study goes on from.

Note [The folder of a study]

``study.json`` says what is run; ``cells/KEY/`` is the folder of one run, with ``cell.json`` written
last: a cell that has one is done. ``journal.jsonl`` is what happened when, for people and for the
time left; nothing is decided by it. ``study.lock`` is held by the one driver at work, which says
who it is in ``driver.json``. A folder of another study, of a newer version, or with other files in
it is an error, and nothing in it is touched.
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
STUDY, CELLS, TUNING, JOURNAL = "study.json", "cells", "tuning", "journal.jsonl"
LOCK, DRIVER, RECORD = "study.lock", "driver.json", "cell.json"
UNDECIDED = {
    LOCK,
    DRIVER,
}  # what a driver leaves that was killed before it had written what it runs


class StudyFolder:
    """Paths, reading and writing; see Note [The folder of a study]."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.journal = Journal(self.path / JOURNAL)

    def check(self, name: str) -> dict[str, Any] | None:
        """What the folder's study runs, None if there is none yet.

        An error if it cannot be used for this study.
        """
        found, content = set(list_folder(self.path)), None
        if STUDY in found:
            content = self.read()
            if content["name"] != name:
                raise ArgumentError(
                    f"out: {self.path} belongs to another study, and was not touched",
                    got=f"{content['name']!r}",
                    allowed=f"{name!r}",
                    fix="choose another folder",
                )
        elif found - UNDECIDED:
            raise ArgumentError(
                f"out: {self.path} holds other files",
                got=", ".join(sorted(found)[:3]),
                fix="name a new folder",
            )
        self._check_writable()
        return content

    def read(self) -> dict[str, Any]:
        """The content of ``study.json``."""
        content = read_versioned(self.path / STUDY)
        if content is None:
            raise ArgumentError(
                "there is no study in this folder", got=str(self.path), fix="name the folder of one"
            )
        if not {"name", "study", "cells"} <= content.keys():
            raise DamagedFileError(
                f"{self.path / STUDY} is not a study of this version", fix="choose another folder"
            )
        return content

    def write(self, content: Mapping[str, Any]) -> None:
        """Write ``study.json``, unless that is what it says."""
        new = {"format": FORMAT, **content}
        if read_versioned(self.path / STUDY) != new:
            write_record(self.path / STUDY, new)

    def record(self, key: str, below: str = CELLS) -> dict[str, Any] | None:
        """How the cell ended; None if it has not."""
        return read_versioned(self.path / below / key / RECORD)

    def outcomes(
        self, keys: Iterable[str], *, below: str = CELLS, retry_failed: bool = False
    ) -> dict[str, dict[str, Any] | None]:
        """How each cell ended, None for those to be run.

        Failed ones are among these if they are to be tried again.
        """
        found = {key: self.record(key, below) for key in keys}
        for key, record in found.items():
            if retry_failed and record is not None and record["status"] == "failed":
                self.forget(key)
                found[key] = None
        return found

    def forget(self, key: str) -> None:
        """Take back how a cell ended, so that it is run again."""
        remove_file(self.path / CELLS / key / RECORD)

    def note(self, event: str, **what: object) -> None:
        """A line in the journal."""
        self.journal.append({"event": event, "time": round(time.time(), 3), **what})

    def driver(self) -> dict[str, Any] | None:
        """The driver at work, or that was last at work and died."""
        try:
            return read_versioned(self.path / DRIVER)
        except DamagedFileError:
            return None

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """The folder, made and held for the block.

        :class:`HeldError` saying who holds it if another does.
        """
        make_folder(self.path)
        with ExitStack() as stack:
            try:
                stack.enter_context(held(self.path / LOCK))
            except HeldError as problem:
                raise HeldError(
                    f"another process is at work on the study in {self.path}",
                    got=_who(self.driver()),
                    fix="wait for it to end, end it, or choose another folder",
                ) from problem
            remove_temporaries(self.path)
            write_record(self.path / DRIVER, {"format": FORMAT, **_self()})
            stack.callback(remove_file, self.path / DRIVER)
            yield

    def _check_writable(self) -> None:
        there = self.path
        while not there.exists() and there != there.parent:
            there = there.parent
        if not there.is_dir() or not os.access(there, os.W_OK):
            raise FileError(
                f"out: {self.path} cannot be written to",
                got=f"{there} is read-only or no folder",
                fix="choose another folder",
            )


def read_versioned(path: Path) -> dict[str, Any] | None:
    """A record of ours, None if it is not there.

    One of a newer version or a changed one is an error.
    """
    content = find_record(path)
    if content is None:
        return None
    found = content.get("format")
    if type(found) is not int or found > FORMAT:
        raise DamagedFileError(
            f"{path} was written by a newer version, and was not touched",
            got=f"format {found!r}",
            allowed=f"up to {FORMAT}",
            fix="use that version, or choose another folder",
        )
    return content


def is_alive(driver: Mapping[str, Any] | None) -> bool:
    """Whether the driver may be at work.

    One on another machine cannot be asked, and counts as alive.
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


def _self() -> dict[str, Any]:
    return {"process": os.getpid(), "host": socket.gethostname(), "since": round(time.time(), 3)}


def _who(driver: Mapping[str, Any] | None) -> str:
    if driver is None:
        return "it has not said who it is yet"
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(driver.get("since", 0)))
    return f"process {driver.get('process')} on {driver.get('host')}, since {since}"
