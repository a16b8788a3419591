"""Divide work among processes of several machines that share a folder, without a server.

Note [Presence and claims]

A process says that it is at work by a file that names it (:class:`Presence`) and renews the time of
that file every few seconds. It is dead if the file is gone, if the file has not been renewed for
``LEASE_SECONDS``, or if the process was on this machine and has ended. Times are compared with the
time of the reader's own file, so that only the clock of the shared disk counts.

A claim (:class:`Claims`) is a file that is created once and names its owner. The claim of a dead
owner is not deleted, because two processes could then delete each other's: the next one is created
beside it under the next number, which again only one process can do.

Claims save work and decide nothing. A process that was suspended and returns may work on what
another has taken over. So results are written once (``write_record_once``).
"""

import math
import os
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Any

from gatewise.errors import DamagedFileError, FileError
from gatewise.files.atomic import list_folder, make_folder, remove_file
from gatewise.files.disk import StrPath
from gatewise.files.envelope import find_record, write_record, write_record_once

HEARTBEAT_SECONDS = 5.0
LOOK_SECONDS = 2.0  # for which an answer about another process holds
LEASE_SECONDS = 60.0
ENDING = ".json"


class Presence:
    """Says in a folder that this process is at work, for the time of a ``with`` block.

    Args:
        folder: where such files are; it is created.
        fields: what else the file says.
    """

    def __init__(self, folder: StrPath, fields: Mapping[str, object] | None = None) -> None:
        self.folder = Path(folder)
        self.name = f"{socket.gethostname()}-{os.getpid()}-{token_hex(4)}"
        self.fields = dict(fields or {})
        self._ended = threading.Event()
        self._known: dict[str, dict[str, Any]] = {}
        self._seen: dict[str, float] = {}  # when another process was last seen alive

    def __enter__(self) -> "Presence":
        make_folder(self.folder)
        write_record(self._path(self.name), this_process() | self.fields)
        self._thread = threading.Thread(target=self._renew, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        with suppress(FileError):  # a disk that fails must not hide why the block ended
            remove_file(self._path(self.name))

    def others(self) -> dict[str, dict[str, Any]]:
        """Return what the files of other processes at work say, by their names."""
        present = {}
        for file_name in list_folder(self.folder):
            name = file_name.removesuffix(ENDING)
            if name != self.name and self.is_alive(name):
                present[name] = self._known[name]
        return present

    def has_others(self) -> bool:
        """Return whether another process is at work: faster than naming all of them."""
        names = [file_name.removesuffix(ENDING) for file_name in list_folder(self.folder)]
        return any(name != self.name and self.is_alive(name) for name in names)

    def is_alive(self, name: str) -> bool:
        """Return whether the process of that name may be at work, as of a few seconds ago."""
        if name == self.name:
            return True
        now = time.monotonic()
        if now - self._seen.get(name, -math.inf) > LOOK_SECONDS:
            self._seen.pop(name, None)
            if not self._look(name, self._now()):
                return False
            self._seen[name] = now
        return True

    def _look(self, name: str, now: float) -> bool:
        """Return whether the file of a process is there, is fresh, and the process exists."""
        try:
            renewed = self._path(name).stat().st_mtime
            if name not in self._known:
                self._known[name] = find_record(self._path(name)) or {}
        except (OSError, DamagedFileError):
            return False
        return now - renewed <= LEASE_SECONDS and may_exist(self._known[name])

    def _now(self) -> float:
        """Return the time of the disk, as far as this process knows it."""
        try:
            return self._path(self.name).stat().st_mtime
        except OSError:
            return time.time()

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}{ENDING}"

    def _renew(self) -> None:
        """Renew the time of the file until the block ends; runs in a thread."""
        while not self._ended.wait(HEARTBEAT_SECONDS):
            # A full or unreachable disk: the claims expire, and others take over.
            with suppress(OSError):
                os.utime(self._path(self.name))


def present_processes(folder: StrPath) -> dict[str, dict[str, Any]]:
    """Return what the processes at work in the folder say, by their names."""
    return Presence(folder).others()


class Claims:
    """Claims of one process on named pieces of work; see Note [Presence and claims].

    Args:
        folder: where the claims are; it is created.
        presence: of this process.
    """

    def __init__(self, folder: StrPath, presence: Presence) -> None:
        self.folder = Path(folder)
        self.presence = presence
        make_folder(self.folder)

    def take(self, name: str) -> bool:
        """Claim a piece of work, and return whether it is now this process's."""
        number = 0
        while True:
            path = self._path(name, number)
            owner = self._owner(path)
            if owner is None:
                if write_record_once(path, {"owner": self.presence.name}):
                    return True
                continue  # another process was faster, or has just released it
            if owner == self.presence.name:
                return True
            if self.presence.is_alive(owner):
                return False
            number += 1

    def release(self, name: str) -> None:
        """Give up a piece of work, done or not."""
        number = 0
        while self._path(name, number).exists():
            remove_file(self._path(name, number))
            number += 1

    def _owner(self, path: Path) -> str | None:
        """Return whose claim it is; None if there is no such claim."""
        if not path.exists():  # the usual case, much faster than an error
            return None
        try:
            record = find_record(path)
        except DamagedFileError:
            return ""  # nobody's: the next number is free
        if record is None:
            return None
        return str(record.get("owner", ""))

    def _path(self, name: str, number: int) -> Path:
        return self.folder / f"{name}.{number}{ENDING}"


def forget_claims(folder: StrPath) -> None:
    """Delete the files of presence or claims in a folder, if no process needs them any more."""
    for name in list_folder(folder):
        remove_file(Path(folder) / name)


def this_process() -> dict[str, Any]:
    """Return what identifies this process."""
    return {"process": os.getpid(), "host": socket.gethostname(), "since": round(time.time(), 3)}


def may_exist(process: Mapping[str, Any]) -> bool:
    """Return whether a process may be alive.

    One on another machine cannot be asked, and counts as alive.

    Args:
        process: what :func:`this_process` returned there.
    """
    if process.get("host") != socket.gethostname():
        return True
    try:
        os.kill(int(process["process"]), 0)
    except PermissionError:  # it is there, and another user's
        return True
    except (OSError, KeyError, TypeError, ValueError, OverflowError):
        return False
    return True
