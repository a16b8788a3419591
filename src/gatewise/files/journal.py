"""An append-only file of records that many processes may write and that survives crashes."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.files import disk
from gatewise.files.disk import StrPath, opened, write_all
from gatewise.files.failure import damaged, explained, show
from gatewise.files.journal_lines import LineError, Lines, read_lines, write_line

log = logging.getLogger("gatewise.files")
TAIL = 1 << 10  # bytes at the end that usually hold the last lines
BLOCK = 1 << 16  # bytes at the end that are read back first


class Journal:
    """Records, each a sealed JSON line; standard JSON Lines for any other reader.

    A record is a ``dict`` of plain values (see Note [Which values]). The first append creates the
    file, in a folder that exists, with a lock file next to it. Note [Torn or damaged] says which
    lines count as torn and which as damaged.

    Args:
        path: the file.
    """

    def __init__(self, path: StrPath) -> None:
        self.path = Path(path)
        self._name_is_durable = False

    def append(self, record: Mapping[str, object]) -> None:
        """Add a record. When this returns, the record survives a power cut.

        After an error the record is not in the journal, unless the disk also prevents its removal.

        Args:
            record: a mapping of plain values.
        """
        self.extend([record])

    def extend(self, records: Sequence[Mapping[str, object]]) -> None:
        """Add records as :meth:`append` does, all in one write.

        After an error none of them is in the journal, unless the disk also prevents their removal.

        Args:
            records: mappings of plain values.
        """
        plain = [_checked(record) for record in records]
        if not plain:
            return
        # Opened before the lock is taken, because taking it would create a missing folder.
        with (
            explained("append to", self.path),
            opened(self.path, "ab+") as handle,
            disk.current.lock(self._lock),
        ):
            last = self._last_lines(handle)
            self._drop_torn_tail(handle, last.end)
            lines = [write_line(number, record) for number, record in enumerate(plain, last.next)]
            self._add(handle, last.end, b"".join(lines))

    @property
    def size(self) -> int:
        """Length of the file in bytes; 0 if nothing was ever appended."""
        with explained("read", self.path):
            try:
                with opened(self.path, "rb") as handle:
                    return disk.current.size(handle)
            except FileNotFoundError:
                return 0

    def cut(self, size: int) -> None:
        """Remove, durably, every record appended since the file had ``size`` bytes.

        A torn tail is removed too. This is for a writer that returns to an earlier state of its own
        work and will append the same records again.

        Args:
            size: a former :attr:`size`.
        """
        present = self.size
        if not isinstance(size, int) or not 0 <= size <= present:
            raise damaged(self.path, f"{present} bytes, expected at least {size!r}")
        if size == present == 0:
            return
        with (
            explained("cut", self.path),
            opened(self.path, "ab+") as handle,
            disk.current.lock(self._lock),
        ):
            if size and disk.current.read(handle, size - 1, 1) != b"\n":
                raise damaged(self.path, f"no record ends at byte {size}")
            disk.current.cut(handle, size)
            disk.current.sync(handle)

    @property
    def _lock(self) -> Path:
        return self.path.with_name(f"{self.path.name}.lock")

    def read(self) -> list[dict[str, Any]]:
        """Return every record, oldest first; none if nothing was ever appended.

        A torn tail is not a record. Reading takes no lock, so it also works on a read-only disk. It
        may then coincide with a writer that is dropping a torn tail. So damage is an error only if
        a second reading finds the same.
        """
        seen = None
        while True:
            try:
                return read_lines(self._content()).records
            except LineError as problem:
                if problem.key == seen:
                    raise damaged(self.path, str(problem)) from problem
                seen = problem.key

    def read_back(self, is_enough: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """Return the last records, oldest first: as many as are needed.

        The time does not depend on the length of the journal. Only the lines that are returned are
        checked.

        Args:
            is_enough: takes the records that have been read so far and returns whether older ones
                are not needed.
        """
        length = BLOCK
        while True:
            data, start = self._end(length)
            try:
                records = read_lines(data, start, 0 if start else 1).records
            except LineError:
                return self.read()  # which tells damage from a writer at work
            if not start or is_enough(records):
                return records
            length *= 8

    def _end(self, length: int) -> tuple[bytes, int]:
        """Return the whole lines within the last ``length`` bytes, and where they start."""
        with explained("read", self.path):
            try:
                with opened(self.path, "rb") as handle:
                    start = max(0, disk.current.size(handle) - length)
                    data = disk.current.read(handle, start)
            except FileNotFoundError:
                return b"", 0
        if not start:
            return data, 0
        whole = data.partition(b"\n")[2]
        return whole, start + len(data) - len(whole)

    def _content(self) -> bytes:
        with explained("read", self.path):
            try:
                with opened(self.path, "rb") as handle:
                    return disk.current.read(handle, 0)
            except FileNotFoundError:
                return b""

    def _last_lines(self, handle: FileIO) -> Lines:
        """Return the last few lines, enough to know where the next one goes.

        This avoids reading a long file.
        """
        with suppress(LineError):
            return read_lines(*_tail(handle))
        try:
            # From the beginning, to count the lines.
            return read_lines(disk.current.read(handle, 0))
        except LineError as problem:
            raise damaged(self.path, str(problem)) from problem

    def _drop_torn_tail(self, handle: FileIO, end: int) -> None:
        torn = disk.current.size(handle) - end
        if torn:
            log.warning(
                "dropped an unfinished record of %d bytes at the end of %s",
                torn,
                show(self.path),
            )
            disk.current.cut(handle, end)
            # Now, or a power cut could leave old torn bytes among new ones.
            disk.current.sync(handle)

    def _add(self, handle: FileIO, end: int, lines: bytes) -> None:
        try:
            write_all(handle, lines)
            disk.current.sync(handle)
            # The process that created the file may have died before syncing its name.
            if end == 0 or not self._name_is_durable:
                disk.current.sync_folder(self.path.parent)
                self._name_is_durable = True
        except BaseException:
            with suppress(OSError):
                disk.current.cut(handle, end)
            raise


def _checked(record: Mapping[str, object]) -> dict[str, Any]:
    """Return a record as a dict, or raise for what cannot be written, before anything changes."""
    if not isinstance(record, Mapping):
        raise ArgumentError(
            "a record must be a mapping",
            got=type(record).__name__,
            allowed="a dict of plain values",
        )
    plain = dict(record)
    write_line(0, plain)
    return plain


def _tail(handle: FileIO) -> tuple[bytes, int, int]:
    """Return bytes, offset and first number (0: unknown) of the last lines.

    There are two or more, because the last may be torn.
    """
    size = disk.current.size(handle)
    length = TAIL
    while size > length:
        data = disk.current.read(handle, size - length)
        if data.count(b"\n") >= 3:
            whole = data.partition(b"\n")[2]
            return whole, size - len(whole), 0
        length *= 8
    return disk.current.read(handle, 0), 0, 1
