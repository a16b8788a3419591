"""The file of a study: one SQLite database with a row for each cell.

Note [One writer]. One process writes, and holds a lock that names it. Its journal is rolled back
after a crash, and a record is on the disk when it has been committed. Readers take what they want
and close at once, because a commit waits for open readers.

The file is a working file. What is kept and shared is its export: a header and sorted records.
"""

import json
import os
import socket
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from gatewise.errors import ArgumentError, DamagedFileError, FileError, HeldError
from gatewise.files import make_folder
from gatewise.results import Result
from gatewise.studies.engine.cell import Cell, Record

FILE = "study.sqlite"
WAIT_MS = 60_000  # for another process that reads or writes
FORMAT = 1  # of the database
LONGEST_OWNER = 500

TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE cells (
    key TEXT PRIMARY KEY, place INTEGER NOT NULL, asked INTEGER NOT NULL,
    experiment TEXT NOT NULL, settings TEXT NOT NULL, labels TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0, status TEXT, record TEXT
);
CREATE INDEX cells_by_status ON cells (asked, status);
"""


@dataclass(frozen=True)
class Status(Result):
    """How far a study is.

    Attributes:
        cells: the cells that are asked for now.
        done: how many have a result; diverged runs have one.
        failed: how many failed.
        diverged: how many of those done diverged.
        driver: the process that runs the study, in words; None if none does.
        failures: what the first failed cells say: labels and error.
    """

    cells: int
    done: int
    failed: int
    diverged: int
    driver: str | None
    failures: Sequence[Record]


class StudyFile:
    """The database of a study; see Note [One writer].

    Args:
        path: the file, or the folder that holds it under the usual name.
    """

    def __init__(self, path: str | Path) -> None:
        path = Path(path)
        self.path = path if path.suffix == ".sqlite" else path / FILE

    @property
    def work(self) -> Path:
        """The folder for what unfinished cells have written."""
        return self.path.with_suffix(".work")

    @property
    def lock(self) -> Path:
        """The file that names the process that runs the study."""
        return self.path.with_suffix(".lock")

    @contextmanager
    def driven(self) -> Iterator[None]:
        """Be the one process that runs this study, for the block.

        Raises:
            HeldError: naming the process that runs it.
        """
        make_folder(self.path.parent)
        lock = FileLock(self.lock, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise HeldError(
                "another process runs this study",
                got=self._owner() or str(self.lock),
                fix="wait for it to end, end it, or choose another folder",
            ) from None
        try:
            self._name_owner(f"process {os.getpid()} on {socket.gethostname()}")
            yield
        finally:
            self._name_owner("")
            lock.release()

    @property
    def driver(self) -> str | None:
        """The process that runs the study now, in words."""
        if not self.lock.exists():
            return None
        lock = FileLock(self.lock, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            return self._owner() or "another process"
        lock.release()
        return None

    def prepare(self) -> None:
        """Create the file, or check the one that is there."""
        with self._writing() as database:
            if self._has_tables(database):
                return self._check(database)
            database.executescript(f"BEGIN; {TABLES} PRAGMA user_version = {FORMAT}; COMMIT;")

    def ask(self, cells: Sequence[Cell], header: Mapping[str, Any] | None = None) -> None:
        """Write down cells as a part of the study; those that are known keep their records.

        Args:
            cells: new ones.
            header: what the study says about itself, at its start. Cells that were asked for
                before belong to it only if they are asked for again.
        """
        rows = []
        for place, cell in enumerate(cells):
            settings, labels = json.dumps(cell.settings), json.dumps(cell.labels)
            rows.append((cell.key, place, cell.experiment, settings, labels))
        with self._writing() as database:
            if header is not None:
                database.execute("UPDATE cells SET asked = 0 WHERE asked != 0")
                words = json.dumps(header)
                database.execute("INSERT OR REPLACE INTO about VALUES ('header', ?)", (words,))
            database.executemany(
                "INSERT INTO cells (key, place, asked, experiment, settings, labels) "
                "VALUES (?, ?, 1, ?, ?, ?) "
                "ON CONFLICT (key) DO UPDATE SET asked = 1, place = excluded.place, "
                "experiment = excluded.experiment, settings = excluded.settings",
                rows,
            )

    def write(self, key: str, record: Record) -> None:
        """Write the record of a cell, once: a second one is not written."""
        text = json.dumps(record, allow_nan=False)
        with self._writing() as database:
            database.execute(
                "UPDATE cells SET status = ?, record = ? WHERE key = ? AND record IS NULL",
                (record["status"], text, key),
            )

    def take(self, records: Mapping[str, Record]) -> None:
        """Keep records that came from elsewhere, by key; cells that have one keep theirs."""
        rows = []
        for key, record in records.items():
            rows.append((key, record["status"], json.dumps(record, allow_nan=False)))
        with self._writing() as database:
            database.executemany(
                "INSERT INTO cells "
                "(key, place, asked, experiment, settings, labels, status, record) "
                "VALUES (?, 0, 0, '', '{}', '{}', ?, ?) ON CONFLICT (key) DO UPDATE "
                "SET status = excluded.status, record = excluded.record WHERE record IS NULL",
                rows,
            )

    def note_death(self, key: str) -> int:
        """Count that a worker died at a cell, and return how often one did."""
        with self._writing() as database:
            database.execute("UPDATE cells SET tries = tries + 1 WHERE key = ?", (key,))
            return database.execute("SELECT tries FROM cells WHERE key = ?", (key,)).fetchone()[0]

    def forget_failed(self) -> None:
        """Delete the records of failed cells, so that they are run again."""
        with self._writing() as database:
            database.execute(
                "UPDATE cells SET status = NULL, record = NULL, tries = 0 WHERE status = 'failed'"
            )

    def records(self, *, all_plans: bool = False) -> dict[str, Record]:
        """Return the records by key.

        Args:
            all_plans: whether to return those that the present plan does not ask for, too.
        """
        which = "" if all_plans else "asked = 1 AND"
        rows = self._read(
            f"SELECT key, record FROM cells WHERE {which} record IS NOT NULL ORDER BY place, key"  # noqa: S608
        )
        return {key: _content(self.path, text) for key, text in rows}

    def header(self) -> dict[str, Any]:
        """Return what the study says about itself."""
        rows = self._read("SELECT value FROM about WHERE name = 'header'")
        if not rows:
            raise DamagedFileError("the study has no header", got=str(self.path))
        return _content(self.path, rows[0][0])

    def has_header(self) -> bool:
        """Return whether a driver has begun the study."""
        with _explained(self.path), closing(_open(self.path)) as database:
            if not self._has_tables(database):
                return False
            rows = database.execute("SELECT 1 FROM about WHERE name = 'header'").fetchall()
            return bool(rows)

    def status(self) -> Status:
        """Return how far the study is."""
        counts = dict(
            self._read("SELECT status, COUNT(*) FROM cells WHERE asked = 1 GROUP BY status")
        )
        failures = self._read(
            "SELECT record FROM cells WHERE asked = 1 AND status = 'failed' ORDER BY place LIMIT 10"
        )
        diverged = counts.get("diverged", 0)
        return Status(
            cells=sum(counts.values()),
            done=counts.get("done", 0) + diverged,
            failed=counts.get("failed", 0),
            diverged=diverged,
            driver=self.driver,
            failures=[_content(self.path, text) for (text,) in failures],
        )

    def _read(self, question: str) -> list[Any]:
        """Return all rows of an answer, and close the file at once."""
        if not self.path.exists():
            raise ArgumentError(
                "there is no study here",
                got=str(self.path),
                fix="name the folder of a study, which was given as out=FOLDER",
            )
        with _explained(self.path), closing(_open(self.path)) as database:
            self._check(database)
            return database.execute(question).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Yield the database in a transaction, which is on the disk at the end."""
        with _explained(self.path), closing(_open(self.path)) as database:
            with database:
                yield database

    def _has_tables(self, database: sqlite3.Connection) -> bool:
        """Return whether the study was set up: a driver may have died before."""
        return bool(database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall())

    def _check(self, database: sqlite3.Connection) -> None:
        """Raise unless this is a study of this version."""
        found = database.execute("PRAGMA user_version").fetchall()
        if found != [(FORMAT,)]:
            raise DamagedFileError(
                "this file is not a study of this version",
                got=str(self.path),
                fix="choose another folder, or delete the file",
            )

    def check_integrity(self) -> None:
        """Raise unless the file is whole; asked when a driver starts."""
        if not self.path.exists():
            return
        with _explained(self.path), closing(_open(self.path)) as database:
            found = database.execute("PRAGMA integrity_check(1)").fetchall()
            if found != [("ok",)]:
                raise _damaged(self.path, found[0][0])

    def _owner(self) -> str:
        """Return which process the lock names."""
        try:
            return self.lock.with_suffix(".driver").read_text()[:LONGEST_OWNER]
        except OSError:
            return ""

    def _name_owner(self, words: str) -> None:
        """Write down which process holds the lock, beside it: the lock's own content is locked."""
        path = self.lock.with_suffix(".driver")
        if words:
            path.write_text(words)
        else:
            path.unlink(missing_ok=True)


def _open(path: Path) -> sqlite3.Connection:
    """Open the database; see Note [One writer]."""
    database = sqlite3.connect(path, timeout=WAIT_MS / 1000)
    database.execute("PRAGMA synchronous = FULL")
    return database


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into those of files."""
    try:
        yield
    except sqlite3.OperationalError as problem:
        raise FileError("the study's file cannot be used", got=f"{path}: {problem}") from problem
    except sqlite3.DatabaseError as problem:
        raise _damaged(path, problem) from problem


def _damaged(path: Path, what: object) -> DamagedFileError:
    """Return the error of a file that cannot be read."""
    return DamagedFileError(
        "the study's file is damaged",
        got=f"{path}: {what}",
        fix="delete it, and import the records that were exported",
    )


def _content(path: Path, text: str) -> dict[str, Any]:
    """Return a stored JSON object."""
    try:
        content = json.loads(text)
    except ValueError as problem:
        raise _damaged(path, problem) from None
    if not isinstance(content, dict):
        raise _damaged(path, "no object")
    return content
