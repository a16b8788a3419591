"""Write a file completely or not at all.

Note [Order of an atomic write]

The steps are: write a temporary file in the same folder; sync the file (else the new name could
survive without the bytes); read it back and compare its digest (else a faulty disk would replace
the good old file); rename it; sync the folder (else the rename could be lost after the call has
returned). Nothing touches the old file before the rename. If only the last sync fails, an error is
raised although the new content is in place, complete, and may or may not survive a power cut. A
symbolic link is replaced by the file. Permissions are those of a new file.
"""

import errno
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from secrets import token_hex

from gatewise.errors import ArgumentError, DamagedFileError, HeldError
from gatewise.files import disk
from gatewise.files.disk import Buffer, StrPath, write_all
from gatewise.files.failure import explained, show
from gatewise.files.seal import digest, digest_file

TEMPORARY = re.compile(r"\.gatewise-[0-9a-f]{16}\.tmp")


def write_bytes(path: StrPath, data: Buffer) -> None:
    """Replace the file by ``data``, durably.

    Args:
        path: the file.
        data: its new content.

    Raises:
        FileError: if that fails; the file is then unchanged.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise ArgumentError(
            "write_bytes takes bytes",
            got=type(data).__name__,
            fix="write_text for text",
        )
    replace_file(path, [data], digest(data))


def write_text(path: StrPath, text: str) -> None:
    """Write text as UTF-8 with :func:`write_bytes`, without changing line ends.

    Args:
        path: the file.
        text: its new content.
    """
    if not isinstance(text, str):
        raise ArgumentError(
            "write_text takes a string",
            got=type(text).__name__,
            fix="write_bytes for bytes",
        )
    try:
        data = text.encode()
    except UnicodeEncodeError as problem:
        raise ArgumentError(
            "the text has no UTF-8 form",
            got=str(problem),
            fix="remove lone surrogates",
        ) from problem
    write_bytes(path, data)


def is_temporary(path: StrPath) -> bool:
    """Return whether the name is that of an unfinished write, which is never content.

    A writer that was killed leaves such a file behind. It may be deleted if no writer is at work in
    the folder.
    """
    return TEMPORARY.fullmatch(Path(path).name) is not None


def remove_file(path: StrPath) -> None:
    """Delete the file, durably; do nothing if it does not exist."""
    path = Path(path)
    with explained("delete", path):
        try:
            disk.current.remove(path)
        except FileNotFoundError:
            return
        disk.current.sync_folder(path.parent)


def remove_temporaries(folder: StrPath) -> list[Path]:
    """Delete the files that killed writers left in the folder, and return their paths.

    Call this only if no other process is at work in the folder.
    """
    with explained("list", folder):
        temporaries = [path for path in disk.current.contents(Path(folder)) if is_temporary(path)]
        for path in temporaries:
            disk.current.remove(path)
    return temporaries


def list_folder(folder: StrPath) -> list[str]:
    """Return the names in the folder without unfinished writes; none if it does not exist."""
    with explained("list", folder):
        try:
            return [
                path.name for path in disk.current.contents(Path(folder)) if not is_temporary(path)
            ]
        except FileNotFoundError:
            return []


@contextmanager
def held(path: StrPath) -> Iterator[None]:
    """Hold the lock file ``path`` during the block.

    Raises:
        HeldError: at once, if another process holds it.
    """
    path = Path(path)
    with explained("lock", path):
        lock = disk.current.hold(path)
    if lock is None:
        raise HeldError(
            f"another process is at work in {show(path.parent)}",
            got=f"{show(path.name)} is held",
            fix="wait for it to end, end it, or choose another folder",
        )
    with lock:
        yield


def make_folder(path: StrPath) -> None:
    """Make the folder and its parents, durably; do nothing if it exists."""
    with explained("make the folder", path):
        _make_folder(Path(path))


def replace_file(
    path: StrPath,
    parts: Iterable[Buffer],
    expected: str,
    slot: int | None = None,
) -> None:
    """Write the parts to a temporary file, compare its digest, and rename it to ``path``.

    Args:
        path: the file.
        parts: its new content.
        expected: the sha256 of the content, as hex digits.
        slot: the place of the seal, which counts as blank; ``None`` for a file without a seal.
    """
    path = Path(path)
    with explained("write", path):
        if not disk.current.is_replaceable(
            path
        ):  # a rename would turn a device or a pipe into a file
            raise OSError(errno.EINVAL, "not a regular file")
        # Not made from the name, which may already have the full length.
        temporary = path.with_name(f".gatewise-{token_hex(8)}.tmp")
        # Before the try: a file that already exists must not be removed.
        handle = disk.current.open(temporary, "xb+")
        try:
            written = _fill(handle, parts, slot)
            if written != expected:
                raise DamagedFileError(
                    f"{show(path)} was not replaced: what was read back is not what was written",
                    got=f"sha256 {written}",
                    allowed=f"sha256 {expected}",
                    fix="check the disk, and let nothing change the data while it is being written",
                )
            disk.current.rename(temporary, path)
        except BaseException:
            with suppress(OSError):
                disk.current.remove(temporary)
            raise
        disk.current.sync_folder(path.parent)


def _fill(handle: FileIO, parts: Iterable[Buffer], slot: int | None) -> str:
    """Write the parts, and return the digest of what the disk then holds."""
    try:
        for part in parts:
            write_all(handle, part)
        disk.current.sync(handle)
        disk.current.forget(handle)
        return digest_file(handle, slot)
    finally:
        disk.current.close(handle)  # before the rename: Windows does not rename an open file


def _make_folder(path: Path) -> None:
    try:
        disk.current.make_folder(path)
    except FileNotFoundError:
        _make_folder(path.parent)
        disk.current.make_folder(path)
    # Also if it existed: its maker may have died before syncing.
    disk.current.sync_folder(path.parent)
