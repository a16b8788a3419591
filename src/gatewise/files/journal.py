"""An append-only file of records that many processes may write, and that a crash cannot spoil."""

import logging
from collections.abc import Mapping
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
REACH = 1 << 12  # bytes at the end that usually hold the last lines


class Journal:
    """Records, one sealed JSON line each; standard JSON Lines for any other reader.

    A record is a ``dict`` of plain values (see Note [Which values]). The file is made by the first
    append, in a folder that exists; a lock file stands beside it. What counts as torn and what as
    damaged is in Note [Torn or damaged].
    """

    def __init__(self, path: StrPath) -> None:
        self.path = Path(path)
        self._name_is_durable = False

    def append(self, record: Mapping[str, object]) -> None:
        """Add a record; when this returns, the record survives a power cut.

        After an error the record is not in the journal, or, if the disc does not even let us take
        it back, may be.
        """
        if not isinstance(record, Mapping):
            raise ArgumentError(
                "a record must be a mapping",
                got=type(record).__name__,
                allowed="a dict of plain values",
            )
        plain = dict(record)
        write_line(0, plain)  # refuses what cannot be written before anything is touched
        # Opened before the lock is taken, because taking it would make a missing folder.
        with (
            explained("append to", self.path),
            opened(self.path, "ab+") as handle,
            disk.disc.lock(self._lock),
        ):
            last = self._last_lines(handle)
            self._drop_torn_tail(handle, last.end)
            self._add(handle, last.end, write_line(last.next, plain))

    @property
    def size(self) -> int:
        """Length of the file in bytes; 0 if nothing was ever appended."""
        with explained("read", self.path):
            try:
                with opened(self.path, "rb") as handle:
                    return disk.disc.size(handle)
            except FileNotFoundError:
                return 0

    def cut(self, size: int) -> None:
        """Take back, durably, every record appended since the file had ``size`` bytes.

        A torn tail goes with them.

        For a writer who goes back to an earlier state of its own work and will append the same
        again.
        """
        found = self.size
        if not isinstance(size, int) or not 0 <= size <= found:
            raise damaged(self.path, f"{found} bytes, where there were at least {size!r}")
        if size == found == 0:
            return
        with (
            explained("cut", self.path),
            opened(self.path, "ab+") as handle,
            disk.disc.lock(self._lock),
        ):
            if size and disk.disc.read(handle, size - 1, 1) != b"\n":
                raise damaged(self.path, f"no record ends at byte {size}")
            disk.disc.cut(handle, size)
            disk.disc.sync(handle)

    @property
    def _lock(self) -> Path:
        return self.path.with_name(f"{self.path.name}.lock")

    def read(self) -> list[dict[str, Any]]:
        """Every record, oldest first; none if nothing was ever appended.

        A torn tail is not a record.

        Reading takes no lock, so it also works on a read-only disc. It may then meet a writer that
        is dropping a torn tail; so damage is believed only if a second look finds the same.
        """
        seen = None
        while True:
            try:
                return read_lines(self._content()).records
            except LineError as problem:
                if problem.key == seen:
                    raise damaged(self.path, str(problem)) from problem
                seen = problem.key

    def _content(self) -> bytes:
        with explained("read", self.path):
            try:
                with opened(self.path, "rb") as handle:
                    return disk.disc.read(handle, 0)
            except FileNotFoundError:
                return b""

    def _last_lines(self, handle: FileIO) -> Lines:
        """The last few lines: enough to know where the next goes, without reading what may be a long file."""
        with suppress(LineError):
            return read_lines(*_tail(handle))
        try:
            return read_lines(
                disk.disc.read(handle, 0)
            )  # from the beginning, to count which line it is
        except LineError as problem:
            raise damaged(self.path, str(problem)) from problem

    def _drop_torn_tail(self, handle: FileIO, end: int) -> None:
        torn = disk.disc.size(handle) - end
        if torn:
            log.warning(
                "dropped an unfinished record of %d bytes at the end of %s", torn, show(self.path)
            )
            disk.disc.cut(handle, end)
            disk.disc.sync(handle)  # now, lest a power cut leave old torn bytes among new ones

    def _add(self, handle: FileIO, end: int, line: bytes) -> None:
        try:
            write_all(handle, line)
            disk.disc.sync(handle)
            if (
                end == 0 or not self._name_is_durable
            ):  # whoever made the file may have died before syncing its name
                disk.disc.sync_folder(self.path.parent)
                self._name_is_durable = True
        except BaseException:
            with suppress(OSError):
                disk.disc.cut(handle, end)
            raise


def _tail(handle: FileIO) -> tuple[bytes, int, int]:
    """Bytes, offset and first number (0: not known) of the last lines.

    Two or more, since the last may be torn.
    """
    size, reach = disk.disc.size(handle), REACH
    while size > reach:
        data = disk.disc.read(handle, size - reach)
        if data.count(b"\n") >= 3:
            whole = data.partition(b"\n")[2]
            return whole, size - len(whole), 0
        reach *= 8
    return disk.disc.read(handle, 0), 0, 1
