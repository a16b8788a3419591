"""Strict JSON: what is written is read back equal, and what is read is plain and finite.

Note [Which values]

``None``, ``bool``, ``int``, finite ``float``, ``str``, ``list`` (a ``tuple`` is read back as one)
and ``dict`` with ``str`` keys, at most 100 deep. NaN and infinities are errors: standard JSON has
no such numbers, and a reader in another language would fail on the file. Write ``None`` or a word
instead. Keys that are not strings are errors, because they would be read back as strings, and two
of them perhaps as the same one.
"""

import json
from collections.abc import Iterable
from math import isfinite
from pathlib import Path
from typing import Any, TypeAlias, Union

from gatewise.errors import ArgumentError
from gatewise.files.atomic import read_bytes, write_bytes
from gatewise.files.failure import StrPath, damaged

Json: TypeAlias = Any  # one of the values of the note; which one only the caller knows
# Where in the content: the place of the container, and the key in it. It becomes text only for an
# error.
Place: TypeAlias = Union[tuple["Place", str | int], None]  # noqa: UP007  a quoted name takes no bar

DEEPEST = 100
LARGEST = 1 << 26  # bytes of one file: more belongs into tensors
ALLOWED = "None, bool, int, finite float, str, and lists and string-keyed dicts of these, 100 deep"


def write_json(path: StrPath, content: object) -> None:
    """Replace the file by ``content`` as standard JSON, with keys in their order.

    Args:
        path: the file.
        content: plain values, see Note [Which values].

    Raises:
        ArgumentError: if ``content`` has other values, such as NaN and infinity.
        FileError: if the file cannot be written; it is then unchanged.
    """
    write_bytes(path, encode(content) + b"\n")


def read_json(path: StrPath) -> Json:
    """Return the content of a JSON file.

    Raises:
        DamagedFileError: if it is not whole, or not what :func:`write_json` writes.
    """
    data = read_bytes(path, LARGEST)
    try:
        content = decode_json(data)
    except ValueError as problem:
        raise damaged(path, str(problem)) from problem
    # Earlier versions wrote a digest first, and some files had the content under a key.
    if isinstance(content, dict) and next(iter(content), None) == "sha256":
        del content["sha256"]
        return content["content"] if content.keys() == {"content"} else content
    return content


def find_json(path: StrPath) -> Json:
    """Return the content of a JSON file, or ``None`` if the file does not exist.

    Raises:
        DamagedFileError: if it is not whole, or not what :func:`write_json` writes.
    """
    return read_json(path) if Path(path).exists() else None


def encode(value: object) -> bytes:
    """Return ``value`` as JSON in UTF-8 on one line.

    Raises:
        ArgumentError: naming the part that cannot be written.
    """
    _check(value, None, 0)
    try:
        data = json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as problem:  # a lone surrogate, or an integer of thousands of digits
        raise _refused("content", str(problem)) from problem
    if len(data) > LARGEST:
        raise _refused(
            "content", f"{len(data)} bytes of JSON, more than the {LARGEST} that are allowed"
        )
    return data


def decode_json(data: bytes) -> Json:
    """Return the value.

    Raises:
        ValueError: for anything that :func:`encode` would not have written.
    """
    try:
        value = json.loads(data.decode(), object_pairs_hook=_unique)
        # Raises for NaN, 1e999 and lone surrogates, in C.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    return value


def _check(value: object, place: Place, depth: int) -> None:
    if depth > DEEPEST:
        raise _refused("content", f"more than {DEEPEST} levels")
    if isinstance(value, dict | list | tuple):
        for key, part in _parts(value, place):
            _check(part, (place, key), depth + 1)
    elif isinstance(value, float) and not isfinite(value):
        raise _refused(_show(place), repr(value))
    elif not isinstance(value, str | int | float | None):
        raise _refused(_show(place), f"a {type(value).__name__}")


def _parts(value: Json, place: Place) -> Iterable[tuple[str | int, Json]]:
    if not isinstance(value, dict):
        return enumerate(value)
    for key in value:
        if not isinstance(key, str):
            raise _refused(f"a key of {_show(place)}", f"a {type(key).__name__}")
    return value.items()


def _show(place: Place) -> str:
    return f"{_show(place[0])}[{place[1]!r}]" if place else "content"


def _refused(where: str, got: str) -> ArgumentError:
    return ArgumentError(
        f"{where} cannot be written as JSON",
        got=got,
        allowed=ALLOWED,
        fix="convert it first; a missing number is None",
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("it has the same key twice")
    return value
