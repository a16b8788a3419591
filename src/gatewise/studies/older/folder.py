"""The folder of a study: plain files, each written whole, from which a killed study resumes.

Note [The folder of a study]

``study.json`` says what is run. ``cells/KEY/`` is the folder of one run. Its ``cell.json`` is
written last: a cell that has one is done. ``journal.jsonl`` says what happened when, for people and
for the estimate of the time left; nothing is decided by it. ``study.lock`` is held by the one
driver at work, and ``driver.json`` says which process that is. A folder of another study, of a
newer version, or with other files in it is an error, and nothing in it is changed.

Note [Several drivers]

With shards, any number of drivers work in one folder, on one machine or many. Each says in
``drivers/`` that it is there, and claims in ``claims/STAGE/`` the cells that it runs; see
:mod:`gatewise.files.claims`. They hold ``study.lock`` only for the moment in which they register.
All of them read the same records, so all of them choose the same learning rates.

Note [Large studies]

The cells of a study with more than ``PLAIN_CELLS`` are written as groups, which have everything but
key and seed, and rows of group, key and seed. They are read back as the list that was written.

Note [Damaged records]

A record that is cut short, changed or not JSON is never used and never deleted. A reader names it
and reads the others. A driver renames it to ``cell.json.damaged``, says so in the journal, and runs
the cell again.
"""

import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gatewise.errors import ArgumentError, DamagedFileError, FileError, HeldError
from gatewise.files import (
    Claims,
    Journal,
    Presence,
    explained,
    find_record,
    find_sealed,
    forget_claims,
    held,
    list_folder,
    make_folder,
    may_exist,
    present_processes,
    remove_file,
    remove_temporaries,
    set_aside,
    this_process,
    write_record,
    write_record_once,
)

FORMAT = 1
PACKED_FORMAT = 2  # of a ``study.json`` whose cells are in groups and rows
PLAIN_CELLS = 1000
STUDY = "study.json"
CELLS = "cells"
TUNING = "tuning"
JOURNAL = "journal.jsonl"
LOCK = "study.lock"
DRIVER = "driver.json"
DRIVERS = "drivers"
CLAIMS = "claims"
AGREED = "agreed.json"
RECORD = "cell.json"
# What a driver leaves that was killed before it had written what it runs.
EMPTY = {LOCK, DRIVER, DRIVERS, CLAIMS, AGREED}
# Every record begins like this, so that its status can be told without reading it as JSON.
BEGINNING = re.compile(
    rb'\{"sha256": "[0-9a-f]{64}", "format": %d, "status": "([a-z]+)", ' % FORMAT
)
REGISTER_SECONDS = 300.0  # that a driver waits for others to register: there may be a thousand
MOMENT_SECONDS = 2.0  # after which a driver that works alone is taken at its word
DAMAGED = "damaged"  # in place of the status of a record that cannot be read


class NewerVersionError(DamagedFileError):
    """A file was written by a newer version of this library."""


@dataclass(frozen=True)
class Records:
    """Records by the key of their cell, and what is wrong with those that cannot be read."""

    readable: dict[str, dict[str, Any]] = field(default_factory=dict)
    damaged: dict[str, DamagedFileError] = field(default_factory=dict)


class StudyFolder:
    """Reads and writes the files of a study; see Note [The folder of a study].

    Args:
        path: of the folder; it need not exist.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.journal = Journal(self.path / JOURNAL)
        self.presence: Presence | None = None  # of this driver, if several may work here
        self.alone = True  # whether no other driver was at work when this one began

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
                "there is no study in this folder",
                got=str(self.path),
                fix="name the folder of one",
            )
        if not {"name", "study", "cells"} <= content.keys():
            raise DamagedFileError(
                f"{self.path / STUDY} is not a study of this version", fix="choose another folder"
            )
        return content

    def find(self) -> dict[str, Any] | None:
        """Return the content of ``study.json``; None if there is none."""
        path = self.path / STUDY
        content = read_versioned(path, PACKED_FORMAT)
        if content is not None and isinstance(content.get("cells"), dict):
            content["cells"] = _unpacked(path, content["cells"])
        return content

    def write(self, content: Mapping[str, Any]) -> None:
        """Write ``study.json``, unless it already has this content."""
        new = {"format": FORMAT, **content}
        if len(new["cells"]) > PLAIN_CELLS:
            new |= {"format": PACKED_FORMAT, "cells": _packed(new["cells"])}
        if read_versioned(self.path / STUDY, PACKED_FORMAT) != new:
            write_record(self.path / STUDY, new)

    def agree(self, name: str, value: Any) -> Any:
        """Return the value of the first driver that had one; the others take it over.

        Args:
            name: of the value.
            value: of this driver.
        """
        if self.presence is None:
            return value
        write_record_once(self.path / AGREED, {"format": FORMAT, name: value})
        agreed = read_versioned(self.path / AGREED) or {}
        return agreed.get(name, value)

    def record(self, key: str, below: str = CELLS) -> dict[str, Any] | None:
        """Return the record of a cell; None if it has not ended."""
        return read_versioned(self._record_path(key, below))

    def records(self, keys: Iterable[str], below: str = CELLS) -> Records:
        """Return the records of all cells that have ended, and the damaged ones with their faults.

        Args:
            keys: of the cells.
            below: the sub-folder that they are in.

        Raises:
            FileError: if the disk fails.
        """
        records = Records()
        for key in self._present(keys, below):
            try:
                record = self.record(key, below)
            except DamagedFileError as problem:
                records.damaged[key] = problem
                continue
            if record is not None:
                records.readable[key] = record
        return records

    def statuses(self, keys: Iterable[str], below: str = CELLS) -> dict[str, str]:
        """Return the status of every cell that has ended, without reading the records as JSON.

        Args:
            keys: of the cells.
            below: the sub-folder that they are in.

        Returns:
            By key: the status in the record, or ``"damaged"``.
        """
        statuses = {}
        for key in self._present(keys, below):
            path = self._record_path(key, below)
            try:
                status = _status_in(path)
            except DamagedFileError:
                status = DAMAGED
            if status is not None:
                statuses[key] = status
        return statuses

    def has_record(self, key: str, below: str = CELLS) -> bool:
        """Return whether a cell has a record, readable or not."""
        return Path(self._record_path(key, below)).exists()

    def set_aside(self, key: str, below: str = CELLS) -> None:
        """Rename a damaged record, so that the cell runs again; see Note [Damaged records].

        Raises:
            NewerVersionError: if it is not damaged, but of a newer version.
        """
        path = self._record_path(key, below)
        try:
            read_versioned(path)
        except NewerVersionError:
            raise
        except DamagedFileError as problem:
            kept = set_aside(path)
            self.note(DAMAGED, key=key, reason=str(problem.got), kept=str(kept))

    def remove_record(self, key: str, below: str = CELLS) -> None:
        """Delete the record of a cell, so that it runs again."""
        remove_file(self._record_path(key, below))

    def _record_path(self, key: str, below: str) -> str:
        # Not a Path: making 100,000 of them takes a second.
        return f"{self.path}/{below}/{key}/{RECORD}"

    def _present(self, keys: Iterable[str], below: str) -> list[str]:
        """Return the keys of cells that have a folder: much faster than looking for each."""
        with explained("list", self.path / below):
            try:
                names = {entry.name for entry in os.scandir(self.path / below)}
            except FileNotFoundError:
                return []
        return [key for key in keys if key in names]

    def note(self, event: str, **fields: object) -> None:
        """Append a line to the journal."""
        who = {} if self.presence is None else {"driver": self.presence.name}
        line = {"event": event, "time": round(time.time(), 3), **who, **fields}
        try:
            self.journal.append(line)
        except DamagedFileError:
            # Nothing is decided by the journal, so the study continues with a new one.
            kept = set_aside(self.journal.path)
            self.journal.append({"event": DAMAGED, "time": line["time"], "kept": str(kept)})
            self.journal.append(line)

    def claims(self, stage: str) -> Claims | None:
        """Return the claims on the cells of a stage; None if this driver has them all."""
        if self.presence is None:
            return None
        make_folder(self.path / CLAIMS)
        return Claims(self.path / CLAIMS / stage, self.presence)

    def drivers(self) -> dict[str, dict[str, Any]]:
        """Return the drivers at work by the names that the journal has for them."""
        present = present_processes(self.path / DRIVERS)
        driver = self.driver()
        if driver is not None and may_exist(driver):
            present[""] = driver
        return present

    def driver(self) -> dict[str, Any] | None:
        """Return the driver at work, or the last one if it died."""
        try:
            return read_versioned(self.path / DRIVER)
        except DamagedFileError:
            return None

    @contextmanager
    def claimed(self, *, shard: str | None = None) -> Iterator[None]:
        """Create the folder and hold it for the block.

        Args:
            shard: the part of this driver, if several work here; see Note [Several drivers].

        Raises:
            HeldError: naming the process that holds it, if another does.
        """
        make_folder(self.path)
        with ExitStack() as stack:
            if shard is None:
                self._hold(stack)
            else:
                self._register(stack, shard)
            yield

    def _hold(self, stack: ExitStack) -> None:
        """Hold the folder alone until the stack ends."""
        self._lock(stack, 0.0)
        others = present_processes(self.path / DRIVERS)
        if others:
            raise self._held_error(next(iter(others.values())))
        self._clean()
        write_record(self.path / DRIVER, {"format": FORMAT, **this_process()})
        stack.callback(remove_file, self.path / DRIVER)

    def _register(self, stack: ExitStack, shard: str) -> None:
        """Register this driver as one of several until the stack ends."""
        presence = Presence(self.path / DRIVERS, {"format": FORMAT, "shard": shard})
        with ExitStack() as moment:
            self._lock(moment, REGISTER_SECONDS)
            self.alone = not presence.has_others()
            if self.alone:
                self._clean()
            stack.enter_context(presence)
        self.presence = presence
        stack.callback(self._leave)

    def _leave(self) -> None:
        """Forget that this driver was one of several."""
        self.presence = None
        self.alone = True

    def _lock(self, stack: ExitStack, patience: float) -> None:
        """Hold the lock file until the stack ends, after waiting ``patience`` seconds for it."""
        begin = time.monotonic()
        while True:
            try:
                stack.enter_context(held(self.path / LOCK))
            except HeldError as problem:
                waited = time.monotonic() - begin
                driver = self.driver()
                # Drivers that register hold it for a moment, one that works alone for hours.
                is_lasting = driver is not None and may_exist(driver) and waited > MOMENT_SECONDS
                if waited >= patience or is_lasting:
                    raise self._held_error(driver) from problem
                time.sleep(0.05)
            else:
                return

    def _clean(self) -> None:
        """Delete what killed drivers left. No other driver is at work."""
        remove_temporaries(self.path)
        forget_claims(self.path / DRIVERS)
        for stage in list_folder(self.path / CLAIMS):
            forget_claims(self.path / CLAIMS / stage)

    def _held_error(self, driver: Mapping[str, Any] | None) -> HeldError:
        """Return the error that names the driver at work."""
        return HeldError(
            f"another process is running the study in {self.path}",
            got=_describe(driver),
            fix="wait for it to end, end it, choose another folder, or give all of them --shard",
        )

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


def read_versioned(path: str | Path, newest: int = FORMAT) -> dict[str, Any] | None:
    """Return the record in a file of the study; None if there is no file.

    Args:
        path: the file.
        newest: the last format that can be read.

    Raises:
        DamagedFileError: if the file was changed, or written by a newer version.
    """
    content = find_record(path)
    if content is None:
        return None
    version = content.get("format")
    if type(version) is not int or version > newest:
        raise NewerVersionError(
            f"{path} was written by a newer version, and was not changed",
            got=f"format {version!r}",
            allowed=f"up to {newest}",
            fix="use that version, or choose another folder",
        )
    return content


def _status_in(path: str) -> str | None:
    """Return the status in a record; None if there is no record."""
    data = find_sealed(path)
    if data is None:
        return None
    beginning = BEGINNING.match(data)
    if beginning:
        return beginning[1].decode()
    record = read_versioned(path) or {}  # of an older version, or by another program
    return str(record.get("status", DAMAGED))


def _packed(cells: Sequence[Mapping[str, Any]]) -> Any:
    """Return cells as groups and rows; see Note [Large studies]."""
    groups: dict[str, int] = {}
    rows = []
    for cell in cells:
        if not isinstance(cell.get("config"), dict) or type(cell.get("seed")) is not int:
            return list(cells)  # cells of another kind
        common = {name: cell[name] for name in cell if name not in ("key", "seed")}
        config = cell["config"]
        seeded = config.get("seed") == cell["seed"]
        if seeded:
            common["config"] = {name: config[name] for name in config if name != "seed"}
        text = json.dumps([seeded, common])
        rows.append([groups.setdefault(text, len(groups)), cell["key"], cell["seed"]])
    return {"groups": [json.loads(text) for text in groups], "rows": rows}


def _unpacked(path: Path, packed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the cells that :func:`_packed` was given.

    Raises:
        DamagedFileError: if they are not of its form.
    """
    cells = []
    try:
        for place, key, seed in packed["rows"]:
            seeded, common = packed["groups"][place]
            cell = {"key": key, **common, "seed": seed}
            if seeded:
                cell["config"] = {**common["config"], "seed": seed}
            cells.append(cell)
    except (KeyError, IndexError, TypeError, ValueError) as problem:
        raise DamagedFileError(
            f"{path} is not a study of this version",
            got=str(problem),
            fix="choose another folder",
        ) from problem
    return cells


def _describe(driver: Mapping[str, Any] | None) -> str:
    """Return a driver in words."""
    if driver is None:
        return "it has not written its process id yet"
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(driver.get("since", 0)))
    return f"process {driver.get('process')} on {driver.get('host')}, since {since}"
