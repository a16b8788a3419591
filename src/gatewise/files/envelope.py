"""Sealed JSON: ``{"sha256": "...", ...}`` and a newline, the digest over every byte of it.

See Note [The seal].
"""

from collections.abc import Mapping
from errno import EEXIST, ENOENT
from typing import Any

from gatewise.errors import ArgumentError, DamagedFileError, FileError
from gatewise.files.atomic import replace_file
from gatewise.files.disk import StrPath
from gatewise.files.failure import damaged
from gatewise.files.plain_json import LARGEST, Json, decode, encode
from gatewise.files.seal import BLANK, digest_parts, is_sealed, read_sealed

HEAD = b'{"sha256": "'
SLOT = len(HEAD)
ROOM = 1 << 10  # bytes an envelope may need around its content


def write_json(path: StrPath, content: object) -> None:
    """Replace the file by ``{"sha256": ..., "content": content}``, durably, or leave it and raise.

    Which values ``content`` may have is in Note [Which values]; others, NaN and infinity among
    them, are an :class:`ArgumentError`. The file is standard JSON, keys in the order given.
    """
    data = pack(b'"content": ' + encode(content))
    replace_file(path, [data], data[SLOT : SLOT + len(BLANK)].decode(), SLOT)


def read_json(path: StrPath) -> Json:
    """The ``content`` given to :func:`write_json`, or :class:`DamagedFileError` if a single bit has changed."""
    data = read_sealed(path, 0, HEAD, LARGEST + ROOM)
    try:
        return fields(data, "content")["content"]
    except ValueError as problem:
        raise damaged(path, str(problem)) from problem


def write_record(path: StrPath, record: Mapping[str, object]) -> None:
    """Replace the file by ``{"sha256": ..., **record}``, durably, or leave it and raise.

    As :func:`write_json` else.

    For files that others read too: the fields are where they look for them.
    """
    data = _packed(record)
    replace_file(path, [data], data[SLOT : SLOT + len(BLANK)].decode(), SLOT)


def write_record_once(path: StrPath, record: Mapping[str, object]) -> bool:
    """:func:`write_record` where there is no such file yet.

    False, and the file is left, where there is.

    Of several processes that write at the same time the first one wins, whole.
    """
    data = _packed(record)
    try:
        replace_file(path, [data], data[SLOT : SLOT + len(BLANK)].decode(), SLOT, once=True)
    except FileError as problem:
        if problem.errno == EEXIST:
            return False
        raise
    return True


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
    """The record given to :func:`write_record`, or :class:`DamagedFileError` if a single bit has changed."""
    data = read_sealed(path, 0, HEAD, LARGEST + ROOM)
    try:
        found: dict[str, Any] = decode(data)
    except ValueError as problem:
        raise damaged(path, str(problem)) from problem
    del found["sha256"]
    return found


def find_record(path: StrPath) -> dict[str, Any] | None:
    """The record in the file, None if there is no such file; a changed one is an error."""
    try:
        return read_record(path)
    except DamagedFileError:
        raise
    except FileError as problem:
        if problem.errno == ENOENT:
            return None
        raise


def pack(inside: bytes) -> bytes:
    """The sealed line around some ``"key": value`` pairs."""
    rest = b'", ' + inside + b"}\n"
    return HEAD + digest_parts([HEAD, BLANK, rest]).encode() + rest


def unpack(data: bytes, *keys: str) -> dict[str, Any]:
    """The fields of a sealed line, or :class:`ValueError` saying what is wrong with it."""
    if not data.startswith(HEAD):
        raise ValueError("it does not begin as such a line begins")
    if not is_sealed(data, SLOT):
        raise ValueError("the sha256 it holds is not that of its bytes")
    return fields(data, *keys)


def fields(data: bytes, *keys: str) -> dict[str, Any]:
    """The fields of a line whose seal has been checked."""
    found = decode(data)
    if list(found) != ["sha256", *keys]:
        raise ValueError(f"its fields are not sha256, {', '.join(keys)}")
    return found
