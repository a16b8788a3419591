"""Writing a file so that it is there whole or not at all.

Note [Order of an atomic write]

Temporary file in the same folder; write; sync the file (else the new name could outlive the bytes);
read it back and compare its digest (else a disc that lies would replace the good old file); rename;
sync the folder (else the rename itself could be lost after we have said it is done). Nothing
touches the old file before the rename. If only the last sync fails, an error is raised while the
new content is already in place, whole, and may or may not survive a power cut. A symbolic link is
replaced by the file. Permissions are those of a newly made file.
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
    """Replace the file by ``data``, durably, or leave it as it was and raise :class:`FileError`."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise ArgumentError(
            "write_bytes takes bytes", got=type(data).__name__, fix="write_text for text"
        )
    replace_file(path, [data], digest(data))


def write_text(path: StrPath, text: str) -> None:
    """:func:`write_bytes` of the text as UTF-8, line ends as they are."""
    if not isinstance(text, str):
        raise ArgumentError(
            "write_text takes a string", got=type(text).__name__, fix="write_bytes for bytes"
        )
    try:
        data = text.encode()
    except UnicodeEncodeError as problem:
        raise ArgumentError(
            "the text has no UTF-8 form", got=str(problem), fix="remove lone surrogates"
        ) from problem
    write_bytes(path, data)


def is_temporary(path: StrPath) -> bool:
    """Whether the name is one that only an unfinished write has: such a file is never content.

    A writer that was killed leaves it behind. Whoever knows that no writer is at work in the folder
    may delete it.
    """
    return TEMPORARY.fullmatch(Path(path).name) is not None


def remove_file(path: StrPath) -> None:
    """Delete the file, durably; nothing happens if it is not there."""
    path = Path(path)
    with explained("delete", path):
        try:
            disk.disc.remove(path)
        except FileNotFoundError:
            return
        disk.disc.sync_folder(path.parent)


def remove_temporaries(folder: StrPath) -> list[Path]:
    """Delete what writers that died left in the folder, and say what.

    Only for who knows that no other is at work.
    """
    with explained("look into", folder):
        found = [path for path in disk.disc.contents(Path(folder)) if is_temporary(path)]
        for path in found:
            disk.disc.remove(path)
    return found


def list_folder(folder: StrPath) -> list[str]:
    """The names in the folder, unfinished writes left out; none if there is no such folder."""
    with explained("look into", folder):
        try:
            return [
                path.name for path in disk.disc.contents(Path(folder)) if not is_temporary(path)
            ]
        except FileNotFoundError:
            return []


@contextmanager
def held(path: StrPath) -> Iterator[None]:
    """Hold the lock file ``path`` for the block, or raise :class:`FileError` at once if another process holds it."""
    path = Path(path)
    with explained("lock", path):
        lock = disk.disc.hold(path)
    if lock is None:
        raise HeldError(
            f"another process is at work in {show(path.parent)}",
            got=f"{show(path.name)} is held",
            fix="wait for it to end, end it, or choose another folder",
        )
    with lock:
        yield


def make_folder(path: StrPath) -> None:
    """Make the folder and those above it, durably; nothing happens if it is there."""
    with explained("make the folder", path):
        _make_folder(Path(path))


def replace_file(
    path: StrPath,
    parts: Iterable[Buffer],
    expected: str,
    slot: int | None = None,
    *,
    once: bool = False,
) -> None:
    """Write the parts to a temporary file, check what arrived against ``expected``, and give it the name ``path``.

    With ``once`` a file that has that name already is left, and FileExistsError raised.
    """
    path = Path(path)
    with explained("write", path):
        if not disk.disc.is_replaceable(path):  # a rename would turn a device or a pipe into a file
            raise OSError(errno.EINVAL, "not a regular file")
        temporary = path.with_name(
            f".gatewise-{token_hex(8)}.tmp"
        )  # not made from the name, which may be full length
        handle = disk.disc.open(
            temporary, "xb+"
        )  # before the try: a name that exists is not ours to remove
        try:
            arrived = _fill(handle, parts, slot)
            if arrived != expected:
                raise _not_what_was_written(path, arrived, expected)
            (disk.disc.claim if once else disk.disc.rename)(temporary, path)
        except BaseException:
            with suppress(OSError):
                disk.disc.remove(temporary)
            raise
        disk.disc.sync_folder(path.parent)


def _fill(handle: FileIO, parts: Iterable[Buffer], slot: int | None) -> str:
    """Write the parts, and return the digest of what the medium then holds."""
    try:
        for part in parts:
            write_all(handle, part)
        disk.disc.sync(handle)
        disk.disc.forget(handle)
        return digest_file(handle, slot)
    finally:
        disk.disc.close(handle)  # before the rename: Windows does not rename an open file


def _not_what_was_written(path: Path, arrived: str, expected: str) -> DamagedFileError:
    return DamagedFileError(
        f"{show(path)} was not replaced: what was read back is not what was written",
        got=f"sha256 {arrived}",
        allowed=f"sha256 {expected}",
        fix="check the disc, and let nothing change the data while it is being written",
    )


def _make_folder(path: Path) -> None:
    try:
        disk.disc.make_folder(path)
    except FileNotFoundError:
        _make_folder(path.parent)
        disk.disc.make_folder(path)
    disk.disc.sync_folder(
        path.parent
    )  # also when it was there: whoever made it may have died before syncing
