"""Read the scalars of TensorBoard's event files, without TensorBoard.

Note [Event files]. A file is a sequence of records: a length (8 bytes), its checksum (4), a message
and its checksum (4). A message is a protocol buffer: event.step is field 2, event.summary field 5,
summary.value field 1; a value has its tag in field 1, a float in field 2, or a tensor in field 8.
A record that is cut off ends the file, since a run that was killed leaves one.
"""

import math
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gatewise.errors import FileError

PREFIX = "events.out.tfevents"
LONGEST = 64_000_000  # bytes of one record
MOST_FILES = 20_000
STEP, SUMMARY, VALUE, TAG, SIMPLE, TENSOR = 2, 5, 1, 1, 2, 8
FLOATS, DOUBLES, CONTENT, DTYPE = 5, 6, 4, 1
FLOAT, DOUBLE = 1, 2  # types of a tensor
VARINT, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5  # wire types


def read_event_folder(folder: Path, files: Sequence[Path] | None = None) -> list[dict[str, Any]]:
    """Return one row per run: its name and the last value of every scalar.

    Args:
        folder: Of all runs. A run is a folder in it that has event files.
        files: The event files; by default all below ``folder``.

    Raises:
        FileError: If an event file cannot be read.
    """
    if files is None:
        files = sorted(folder.rglob(f"{PREFIX}*"))
    if len(files) > MOST_FILES:
        raise FileError(
            "stats: too many event files",
            got=f"{len(files):,} in {folder}",
            allowed=MOST_FILES,
        )
    runs: dict[Path, dict[str, tuple[int, float]]] = {}
    for path in files:
        last = runs.setdefault(path.parent, {})
        for tag, step, value in _scalars(path):
            if tag not in last or step >= last[tag][0]:
                last[tag] = (step, value)
    rows = []
    for place, scalars in runs.items():
        name = place.relative_to(folder).as_posix()
        row: dict[str, Any] = {"run name": folder.name if name == "." else name}
        row.update({tag: value for tag, (_, value) in scalars.items()})
        if scalars:
            rows.append(row)
    return rows


def _scalars(path: Path) -> Iterator[tuple[str, int, float]]:
    """Yield tag, step and value of every scalar in a file."""
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise FileError(
            "stats: the event file cannot be read", got=f"{path}: {problem}"
        ) from problem
    for message in _records(content):
        try:
            yield from _scalars_of(message)
        except (ValueError, struct.error, IndexError) as problem:
            raise FileError("stats: the event file is damaged", got=str(path)) from problem


def _records(content: bytes) -> Iterator[bytes]:
    """Yield the messages of a file; one that is cut off ends it."""
    place = 0
    while place + 12 <= len(content):
        (length,) = struct.unpack_from("<Q", content, place)
        place += 12
        if length > LONGEST or place + length + 4 > len(content):
            return
        yield content[place : place + length]
        place += length + 4


def _scalars_of(event: bytes) -> Iterator[tuple[str, int, float]]:
    """Yield the scalars of one event."""
    step = 0
    summaries = []
    for number, value in _fields(event):
        if number == STEP and isinstance(value, int):
            step = value
        elif number == SUMMARY and isinstance(value, bytes):
            summaries.append(value)
    for summary in summaries:
        for number, value in _fields(summary):
            if number == VALUE and isinstance(value, bytes):
                tag, scalar = _scalar(value)
                if tag and scalar is not None:
                    yield tag, step, scalar


def _scalar(message: bytes) -> tuple[str, float | None]:
    """Return tag and value of a summary; None if it is not a scalar."""
    tag = ""
    scalar = None
    for number, value in _fields(message):
        if number == TAG and isinstance(value, bytes):
            tag = value.decode("utf-8", errors="replace")
        elif number == SIMPLE and isinstance(value, float):
            scalar = value
        elif number == TENSOR and isinstance(value, bytes):
            scalar = _tensor_scalar(value)
    return tag, scalar


def _tensor_scalar(message: bytes) -> float | None:
    """Return the one number of a tensor of floats; None for other tensors."""
    dtype = 0
    numbers: list[float] = []
    for number, value in _fields(message):
        if number == DTYPE and isinstance(value, int):
            dtype = value
        elif number in (FLOATS, DOUBLES) and isinstance(value, float):
            numbers.append(value)
        elif number in (FLOATS, DOUBLES, CONTENT) and isinstance(value, bytes):
            wide = number == DOUBLES or (number == CONTENT and dtype == DOUBLE)
            if number == CONTENT and dtype not in (FLOAT, DOUBLE):
                return None
            size = 8 if wide else 4
            numbers += struct.unpack(f"<{len(value) // size}{'d' if wide else 'f'}", value)
    if len(numbers) == 1 and not math.isnan(dtype):
        return numbers[0]
    return None


def _fields(message: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """Yield number and value of every field of a protocol buffer."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, place = _varint(message, place)
            yield number, value
        elif wire in (EIGHT_BYTES, FOUR_BYTES):
            size = 8 if wire == EIGHT_BYTES else 4
            yield number, struct.unpack_from("<d" if size == 8 else "<f", message, place)[0]
            place += size
        elif wire == BYTES:
            length, place = _varint(message, place)
            if place + length > len(message):
                raise ValueError("a field is cut off")
            yield number, message[place : place + length]
            place += length
        else:
            raise ValueError("an unknown kind of field")


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """Return a whole number of variable length, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise ValueError("a number is too long")
