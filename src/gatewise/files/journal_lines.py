"""What the bytes of a journal say.

Its records, where the good part ends, and whether the rest is torn or damaged.

Note [Torn or damaged]

An append that was cut off by a crash leaves a torn tail. Nobody was told that its record is safe,
so it is dropped. Anything else that does not check is damage, and is never dropped. At the end of a
file the two must be told apart:

* No final newline: torn, since an append is one write that ends in its newline. Except if it does
  not begin like a line: then this is another kind of file, which we must not cut. And except if it
  holds a whole line with another byte where its newline was: then an acknowledged record has been
  hit.
* A final newline, but the line does not check: torn if at least one whole sector of it is NUL,
  which is what a file system leaves where the file had grown but the bytes had not arrived; JSON
  has no NUL. Otherwise damage.

What no journal can notice is a file that was later cut short, since that is also how a crash leaves
it: the records before the cut are read, none is altered. A line knows its number, so lines lost,
doubled or moved are noticed.
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
    """A line is damaged: ``key`` is its number and bytes, to see whether a second look finds the same."""

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
    """The line that holds ``record``, with its newline."""
    return pack(b'"line": %d, "record": %b' % (number, encode(record)))


def read_lines(data: bytes, start: int = 0, first: int = 1) -> Lines:
    """Read journal bytes from offset ``start``, where line ``first`` begins (0: not known).

    Or :class:`LineError`.
    """
    found, place = Lines(start, first), 0
    while (
        end := data.find(b"\n", place) + 1
    ):  # not split: a hostile file may be nothing but newlines
        line = data[place:end]
        try:
            _read_line(line, found)
        except ValueError as problem:
            if end == len(data) and has_hole(line, found.end):
                return found
            raise LineError(found.next, line, str(problem)) from problem
        place = end
    if why := fault_of_tail(data[place:]):
        raise LineError(found.next, data[place:], why)
    return found


def _read_line(line: bytes, found: Lines) -> None:
    fields = unpack(line, "line", "record")
    number, record = fields["line"], fields["record"]
    if type(number) is not int or found.next not in (0, number):
        raise ValueError(f"it says it is line {number!r}")
    if not isinstance(record, dict):
        raise ValueError("its record is not a JSON object")
    found.records.append(record)
    found.next = number + 1
    found.end += len(line)


def has_hole(line: bytes, start: int) -> bool:
    """Whether a whole sector's share of the line, which begins at offset ``start``, is NUL."""
    edges = range(SECTOR - start % SECTOR, len(line) + SECTOR, SECTOR)
    shares = (line[max(0, edge - SECTOR) : edge] for edge in edges)
    return begins_like_a_line(line) and any(share and not share.strip(b"\0") for share in shares)


def fault_of_tail(tail: bytes) -> str | None:
    """Why bytes without newline are not what an append that was cut off leaves."""
    if not begins_like_a_line(tail):
        return "it does not begin as such a line begins"
    return "its newline has been changed" if hides_a_line(tail) else None


def begins_like_a_line(data: bytes) -> bool:
    """Whether it begins as every line does, bytes that have not arrived set aside."""
    return all(found in (0, wanted) for found, wanted in zip(data, HEAD, strict=False))


def hides_a_line(tail: bytes) -> bool:
    """Whether a tail without newline begins with a whole line whose newline has become some other byte."""
    next_line = NEXT_LINE.search(tail)
    ends = [len(tail), next_line.start() + 3 if next_line else 0]
    return any(is_sealed(tail[: end - 1] + b"\n", SLOT) for end in ends if end)
