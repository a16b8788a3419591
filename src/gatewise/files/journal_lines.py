"""The bytes of a journal: its records, the end of the good part, and whether the rest is damaged.

Note [Torn or damaged]

An append that was cut off by a crash leaves a torn tail. Its record was never confirmed, so it is
dropped. Anything else that fails the check is damage, and is never dropped. At the end of a file
the two are distinguished as follows:

* Without a final newline the line is torn, because an append is one write that ends in its newline.
There are two exceptions. If it does not start like a line, this is another kind of file, which must
not be cut. If it holds a complete line with another byte in place of its newline, a confirmed
record has been hit. * With a final newline, a line that fails the check is torn if at least one
whole sector of it is NUL. A file system leaves that where the file had grown but the bytes had not
arrived; JSON has no NUL. Otherwise it is damage.

No journal can detect a file that was cut short later, because a crash can leave the same: the
records before the cut are read, and none is altered. Lines are numbered, so lost, doubled or moved
lines are detected.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from gatewise.files.envelope import HEAD, SLOT, pack, unpack
from gatewise.files.plain_json import encode
from gatewise.files.seal import is_sealed

SECTOR = 512
# Within a line only a comma, a colon or a bracket can be before HEAD.
NEXT_LINE = re.compile(rb"\}\}[^\n]" + re.escape(HEAD))


class LineError(ValueError):
    """A line is damaged. ``key`` is its number and bytes, to compare two readings."""

    def __init__(self, number: int, line: bytes, why: str) -> None:
        super().__init__(f"line {number}: {why}")
        self.key = (number, line)


@dataclass
class Lines:
    """The good part of a journal, or of its last few lines."""

    end: int  # offset in the file of the first byte after the last good line
    next: int  # number of the line to come; 0 while it is not known
    records: list[dict[str, Any]] = field(default_factory=list)


def write_line(number: int, record: dict[str, Any]) -> bytes:
    """Return the line that holds ``record``, with its newline."""
    return pack(b'"line": %d, "record": %b' % (number, encode(record)))


def read_lines(data: bytes, start: int = 0, first: int = 1) -> Lines:
    """Read journal bytes from offset ``start``, where line ``first`` begins (0: unknown).

    Raises:
        LineError: if a line is damaged.
    """
    lines = Lines(start, first)
    place = 0
    # Not split, because a hostile file may consist of newlines only.
    while end := data.find(b"\n", place) + 1:
        line = data[place:end]
        try:
            _read_line(line, lines)
        except ValueError as problem:
            if end == len(data) and has_hole(line, lines.end):
                return lines
            raise LineError(lines.next, line, str(problem)) from problem
        place = end
    fault = fault_of_tail(data[place:])
    if fault:
        raise LineError(lines.next, data[place:], fault)
    return lines


def _read_line(line: bytes, lines: Lines) -> None:
    fields = unpack(line, "line", "record")
    number = fields["line"]
    record = fields["record"]
    if type(number) is not int or lines.next not in (0, number):
        raise ValueError(f"it says it is line {number!r}")
    if not isinstance(record, dict):
        raise ValueError("its record is not a JSON object")
    lines.records.append(record)
    lines.next = number + 1
    lines.end += len(line)


def has_hole(line: bytes, start: int) -> bool:
    """Return whether a whole sector's share of the line, which begins at ``start``, is NUL."""
    edges = range(SECTOR - start % SECTOR, len(line) + SECTOR, SECTOR)
    shares = (line[max(0, edge - SECTOR) : edge] for edge in edges)
    return begins_like_a_line(line) and any(share and not share.strip(b"\0") for share in shares)


def fault_of_tail(tail: bytes) -> str | None:
    """Return why bytes without newline are not an interrupted append, or ``None`` if they are."""
    if not begins_like_a_line(tail):
        return "it does not start like a line of a journal"
    return "its newline has been changed" if hides_a_line(tail) else None


def begins_like_a_line(data: bytes) -> bool:
    """Return whether ``data`` begins as every line does, apart from bytes that have not arrived."""
    return all(byte in (0, expected) for byte, expected in zip(data, HEAD, strict=False))


def hides_a_line(tail: bytes) -> bool:
    """Return whether a tail begins with a complete line whose newline was changed."""
    next_line = NEXT_LINE.search(tail)
    ends = [len(tail), next_line.start() + 3 if next_line else 0]
    return any(is_sealed(tail[: end - 1] + b"\n", SLOT) for end in ends if end)
