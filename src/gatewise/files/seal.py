"""Digests, and the seal: a file that holds its own sha256.

Note [The seal]

A sealed file has a slot of 64 characters at a fixed place. The slot is filled with zeros, the
sha256 of the whole file is taken, and its hex digits are put into the slot. To check, the slot is
filled with zeros again. So the digest covers every byte: the header, the slot itself (compared
digit by digit) and the last newline.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from io import FileIO
from os import fspath
from pathlib import Path

from gatewise.files import disk
from gatewise.files.disk import Buffer, StrPath, opened
from gatewise.files.failure import damaged, explained

BLANK = b"0" * 64
BLOCK = 1 << 20


def digest(source: Buffer | StrPath) -> str:
    """Return the sha256 of some bytes, or of the file at a path, as 64 lower-case hex digits.

    Args:
        source: bytes, or a path; a ``str`` is a path.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return digest_parts([source])
    with explained("read", source), opened(Path(source), "rb") as handle:
        return digest_file(handle)


def digest_parts(parts: Iterable[Buffer]) -> str:
    """Return the sha256 of the parts, one after another."""
    total = sha256()
    for part in parts:
        total.update(part)
    return total.hexdigest()


def digest_file(handle: FileIO, slot: int | None = None) -> str:
    """Return the sha256 of an open file, with the slot at that place, if any, taken as blank."""
    return digest_parts(_blanked(_blocks(handle), slot))


def is_sealed(data: bytes, slot: int) -> bool:
    """Return whether the slot holds the digest of all of ``data``."""
    view = memoryview(data)
    end = slot + len(BLANK)
    return data[slot:end] == digest_parts([view[:slot], BLANK, view[end:]]).encode()


def read_sealed(
    path: StrPath,
    start: int,
    head: bytes,
    limit: int,
) -> bytes:
    """Return all bytes of a file with ``head`` at ``start`` and its slot right after.

    Args:
        path: the file.
        start: the place of ``head``.
        head: the bytes before the slot.
        limit: the largest size allowed.

    Raises:
        DamagedFileError: if head, size or seal is wrong.
    """
    slot = start + len(head)
    try:
        data = _read_like(path, start, head, limit)
    except (OSError, ValueError, MemoryError) as problem:
        # Not with `explained`: half of the time of reading a small file would be spent on it.
        with explained("read", path):
            raise problem
    if not is_sealed(data, slot):
        raise damaged(
            path,
            f"the sha256 it holds, {data[slot : slot + len(BLANK)]!r}, is not that of its bytes",
        )
    return data


def _read_like(path: StrPath, start: int, head: bytes, limit: int) -> bytes:
    """Return all bytes of a file that has ``head`` at ``start`` and at most ``limit`` bytes."""
    handle = disk.current.open(fspath(path), "rb")
    try:
        size = disk.current.size(handle)
        # Before reading the rest, which may be many gigabytes of something else.
        first = disk.current.read(handle, 0, min(size, BLOCK))
        if first[start : start + len(head)] != head:
            raise damaged(path, "it does not start like a file of this kind")
        if size > limit:
            raise damaged(path, f"{size} bytes, more than the {limit} that are allowed")
        if size <= BLOCK:
            return first
        return disk.current.read(handle, 0)
    finally:
        disk.current.close(handle)


def _blocks(handle: FileIO) -> Iterator[bytes]:
    start = 0
    while block := disk.current.read(handle, start, BLOCK):
        yield block
        start += len(block)


def _blanked(blocks: Iterator[bytes], slot: int | None) -> Iterator[bytes]:
    if slot is not None:  # a slot is always within the first block
        first = next(blocks, b"")
        yield first[:slot] + BLANK + first[slot + len(BLANK) :]
    yield from blocks
