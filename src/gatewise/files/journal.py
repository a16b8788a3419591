"""An append-only file of records, one JSON object a line, that survives a kill of its writer."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.files.failure import StrPath, damaged, explained
from gatewise.files.plain_json import decode_json, encode


class Journal:
    """Records of one writer; standard JSON Lines for any other reader.

    A record is a ``dict`` of plain values (see Note [Which values]). The first append creates the
    file, in a folder that exists. A writer that is killed may leave an unfinished line at the end.
    It is not a record, and the next append removes it.

    Args:
        path: the file.
    """

    def __init__(self, path: StrPath) -> None:
        self.path = Path(path)

    def append(self, record: Mapping[str, object]) -> None:
        """Add a record. When this returns, it is on the disk.

        Args:
            record: a mapping of plain values.
        """
        self.extend([record])

    def extend(self, records: Sequence[Mapping[str, object]]) -> None:
        """Add records as :meth:`append` does, all in one write.

        Args:
            records: mappings of plain values.
        """
        lines = b"".join(encode(_checked(record)) + b"\n" for record in records)
        if not lines:
            return
        content = self._content()
        end = _end(content)
        if content[end : end + 1] not in (b"", b"{", b"\0"):
            raise damaged(self.path, "its end is not the beginning of a record")
        with explained("append to", self.path), self.path.open("ab") as file:
            file.truncate(end)
            try:
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                os.truncate(self.path, end)
                raise

    @property
    def size(self) -> int:
        """Length of the file in bytes; 0 if nothing was ever appended."""
        with explained("read", self.path):
            return self.path.stat().st_size if self.path.exists() else 0

    def cut(self, size: int) -> None:
        """Remove every record appended since the file had ``size`` bytes.

        This is for a writer that returns to an earlier state of its own work and will append the
        same records again.

        Args:
            size: a former :attr:`size`.
        """
        content = self._content()
        if type(size) is not int or not 0 <= size <= len(content):
            raise damaged(self.path, f"{len(content)} bytes, expected at least {size!r}")
        if size and content[size - 1 : size] != b"\n":
            raise damaged(self.path, f"no record ends at byte {size}")
        if size < len(content):
            with explained("cut", self.path):
                os.truncate(self.path, size)

    def read(self) -> list[dict[str, Any]]:
        """Return every record, oldest first; none if nothing was ever appended."""
        content = self._content()
        records = []
        for number, line in enumerate(content[: _end(content)].splitlines(), 1):
            try:
                record = decode_json(line)
                if not isinstance(record, dict):
                    raise ValueError("it is not a JSON object")
            except ValueError as problem:
                raise damaged(self.path, f"line {number}: {problem}") from problem
            if record.keys() == {"sha256", "line", "record"}:  # an earlier version wrote it
                record = record["record"]
            records.append(record)
        return records

    def _content(self) -> bytes:
        with explained("read", self.path):
            return self.path.read_bytes() if self.path.exists() else b""


def _end(content: bytes) -> int:
    """Return where the last finished line ends."""
    return content.rfind(b"\n") + 1


def _checked(record: Mapping[str, object]) -> dict[str, Any]:
    """Return a record as a dict."""
    if not isinstance(record, Mapping):
        raise ArgumentError(
            "a record must be a mapping",
            got=type(record).__name__,
            allowed="a dict of plain values",
        )
    return dict(record)
