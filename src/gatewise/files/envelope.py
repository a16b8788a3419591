"""Sealed JSON: ``{"sha256": "...", ...}`` and a newline, with the digest over every byte.

See Note [The seal].
"""

from collections.abc import Mapping
from errno import ENOENT
from typing import Any

from gatewise.errors import ArgumentError, DamagedFileError, FileError
from gatewise.files.atomic import replace_file
from gatewise.files.disk import StrPath
from gatewise.files.failure import damaged
from gatewise.files.plain_json import LARGEST, Json, decode, encode
from gatewise.files.seal import BLANK, digest_parts, is_sealed, read_sealed

HEAD = b'{"sha256": "'
SLOT = len(HEAD)
ROOM = 1 << 10  # the most bytes that an envelope needs around its content


def write_json(path: StrPath, content: object) -> None:
    """Replace the file by ``{"sha256": ..., "content": content}``, durably.

    The file is standard JSON, with keys in their order.

    Args:
        path: the file.
        content: plain values, see Note [Which values].

    Raises:
        ArgumentError: if ``content`` has other values, such as NaN and infinity.
        FileError: if the file cannot be written; it is then unchanged.
    """
    _replace_sealed(path, pack(b'"content": ' + encode(content)))


def read_json(path: StrPath) -> Json:
    """Return the ``content`` given to :func:`write_json`.

    Raises:
        DamagedFileError: if a single bit has changed.
    """
    data = read_sealed(path, 0, HEAD, LARGEST + ROOM)
    try:
        return fields(data, "content")["content"]
    except ValueError as problem:
        raise damaged(path, str(problem)) from problem


def write_record(path: StrPath, record: Mapping[str, object]) -> None:
    """Replace the file by ``{"sha256": ..., **record}``, durably, as :func:`write_json` does.

    This is for files that other programs read: the fields are at the top level.

    Args:
        path: the file.
        record: fields other than ``sha256``.
    """
    _replace_sealed(path, _packed(record))


def _replace_sealed(path: StrPath, data: bytes) -> None:
    seal = data[SLOT : SLOT + len(BLANK)].decode()
    replace_file(path, [data], seal, SLOT)


def _packed(record: Mapping[str, object]) -> bytes:
    plain = dict(record) if isinstance(record, Mapping) else record
    if not isinstance(plain, dict) or not plain or "sha256" in plain:
        raise ArgumentError(
            "the record cannot be written",
            got=plain,
            allowed="a mapping with fields other than sha256",
        )
    return pack(encode(plain)[1:-1])


def read_record(path: StrPath) -> dict[str, Any]:
    """Return the record given to :func:`write_record`.

    Raises:
        DamagedFileError: if a single bit has changed.
    """
    return _record_in(path, read_sealed(path, 0, HEAD, LARGEST + ROOM))


def find_record(path: StrPath) -> dict[str, Any] | None:
    """Return the record in the file, or ``None`` if the file does not exist.

    Raises:
        DamagedFileError: if a single bit has changed.
    """
    data = find_sealed(path)
    return None if data is None else _record_in(path, data)


def find_sealed(path: StrPath) -> bytes | None:
    """Return the bytes of a sealed JSON file, or ``None`` if the file does not exist.

    Reading them as JSON takes longer than this.

    Raises:
        DamagedFileError: if a single bit has changed.
    """
    try:
        return read_sealed(path, 0, HEAD, LARGEST + ROOM)
    except DamagedFileError:
        raise
    except FileError as problem:
        if problem.errno == ENOENT:
            return None
        raise


def _record_in(path: StrPath, data: bytes) -> dict[str, Any]:
    try:
        record: dict[str, Any] = decode(data)
    except ValueError as problem:
        raise damaged(path, str(problem)) from problem
    del record["sha256"]
    return record


def pack(inside: bytes) -> bytes:
    """Return the sealed line around some ``"key": value`` pairs."""
    rest = b'", ' + inside + b"}\n"
    return HEAD + digest_parts([HEAD, BLANK, rest]).encode() + rest


def unpack(data: bytes, *keys: str) -> dict[str, Any]:
    """Return the fields of a sealed line.

    Raises:
        ValueError: saying what is wrong with the line.
    """
    if not data.startswith(HEAD):
        raise ValueError("it does not start like a line of a journal")
    if not is_sealed(data, SLOT):
        raise ValueError("the sha256 it holds is not that of its bytes")
    return fields(data, *keys)


def fields(data: bytes, *keys: str) -> dict[str, Any]:
    """Return the fields of a line whose seal has been checked."""
    values = decode(data)
    if list(values) != ["sha256", *keys]:
        raise ValueError(f"its fields are not sha256, {', '.join(keys)}")
    return values
