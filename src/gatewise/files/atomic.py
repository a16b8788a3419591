"""Write a file completely or not at all, by a temporary file that takes its place."""

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_hex

from gatewise.errors import ArgumentError, HeldError
from gatewise.files.failure import StrPath, damaged, explained, show

TEMPORARY = re.compile(r"\.gatewise-[0-9a-f]{16}\.tmp")
BLOCK = 1 << 20  # bytes read at once for a digest


@contextmanager
def replacing(path: StrPath) -> Iterator[Path]:
    """Yield the path of a temporary file, which takes the place of ``path`` after the block.

    The temporary file is synced before it is renamed, else the new name could survive a power cut
    without the bytes. Then the folder is synced, else the rename could be lost. After an error the
    old file is unchanged. The file that a symbolic link leads to is replaced, and not the link.

    Args:
        path: the file.
    """
    path = Path(path)
    with explained("write", path):
        if path.is_symlink():
            path = Path(os.path.realpath(path))  # of links in a circle, a link itself
        if path.exists():
            check_regular(path)  # a rename would turn a device or a pipe into a file
        # Not made from the name, which may already have the full length.
        temporary = path.with_name(f".gatewise-{token_hex(8)}.tmp")
        try:
            yield temporary
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def write_bytes(path: StrPath, data: bytes) -> None:
    """Replace the file by ``data``.

    Args:
        path: the file.
        data: its new content.

    Raises:
        FileError: if that fails; the file is then unchanged.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise ArgumentError(
            "write_bytes takes bytes", got=type(data).__name__, fix="write_text for text"
        )
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: StrPath, text: str) -> None:
    """Write text as UTF-8 with :func:`write_bytes`, without changing line ends.

    Args:
        path: the file.
        text: its new content.
    """
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


def read_bytes(path: StrPath, most: int) -> bytes:
    """Return the content of a regular file of at most ``most`` bytes.

    Raises:
        DamagedFileError: if it is larger, without reading it.
        FileError: if it cannot be read.
    """
    with explained("read", path):
        size = check_regular(Path(path))
        if size > most:
            raise damaged(path, f"{size} bytes, more than the {most} that are allowed")
        return Path(path).read_bytes()


def digest(source: bytes | StrPath) -> str:
    """Return the sha256 of some bytes, or of the file at a path, as 64 lower-case hex digits.

    Args:
        source: bytes, or a path; a ``str`` is a path.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return sha256(source).hexdigest()
    total = sha256()
    with explained("read", source):
        check_regular(Path(source))
        with Path(source).open("rb") as file:
            while block := file.read(BLOCK):
                total.update(block)
    return total.hexdigest()


def check_regular(path: Path) -> int:
    """Return the size of a regular file; raise OSError for a folder, a device, a pipe or a socket.

    Reading a pipe would wait for a writer.
    """
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    return found.st_size


def is_temporary(path: StrPath) -> bool:
    """Return whether the name is that of an unfinished write, which is never content.

    A writer that was killed leaves such a file behind. It may be deleted if no writer is at work in
    the folder.
    """
    return TEMPORARY.fullmatch(Path(path).name) is not None


def remove_file(path: StrPath) -> None:
    """Delete the file; do nothing if it does not exist."""
    with explained("delete", path):
        Path(path).unlink(missing_ok=True)


def remove_temporaries(folder: StrPath) -> list[Path]:
    """Delete unfinished writes in the folder and return their paths.

    Call this only if no writer is at work in the folder.
    """
    folder = Path(folder)
    with explained("tidy", folder):
        temporaries = sorted(filter(is_temporary, folder.iterdir()))
        for path in temporaries:
            path.unlink(missing_ok=True)
    return temporaries


def list_folder(folder: StrPath) -> list[str]:
    """Return the names in the folder without unfinished writes; none if it does not exist."""
    with explained("list", folder):
        try:
            return sorted(path.name for path in Path(folder).iterdir() if not is_temporary(path))
        except FileNotFoundError:
            return []


def make_folder(path: StrPath) -> None:
    """Make the folder and its parents; do nothing if it exists."""
    with explained("make the folder", path):
        Path(path).mkdir(parents=True, exist_ok=True)


@contextmanager
def held(path: StrPath) -> Iterator[None]:
    """Hold the lock file ``path`` during the block. The system frees it when its holder dies.

    Raises:
        HeldError: at once, if another process holds it.
    """
    from filelock import FileLock, Timeout  # here, so that only those who lock pay for the import

    path = Path(path)
    lock = FileLock(path, timeout=0)
    with explained("lock", path):
        try:
            lock.acquire()
        except Timeout as problem:
            raise HeldError(
                f"another process is at work in {show(path.parent)}",
                got=f"{show(path.name)} is held",
                fix="wait for it to end, end it, or choose another folder",
            ) from problem
    try:
        yield
    finally:
        lock.release()


def _sync_folder(path: Path) -> None:
    """Return when names in the folder are on the disk."""
    if os.name == "nt":  # cannot open a folder, and makes a rename durable without a sync
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
