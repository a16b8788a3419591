"""The object through which this package uses the disk, which tests replace by a failing one."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import TypeAlias

StrPath: TypeAlias = str | os.PathLike[str]
Buffer: TypeAlias = bytes | bytearray | memoryview

# Seconds. A holder that dies frees the lock at once, so this is the wait for one that hangs.
LOCK_TIMEOUT = 60.0
# Windows cannot open a folder, and makes a rename durable without a sync.
FOLDERS_SYNC = os.name != "nt"
# Opening a named pipe must not hang.
NEVER_WAIT = getattr(os, "O_NONBLOCK", 0)
# Errors of disks without hard links.


class Disk:
    """Unbuffered files and folders of the operating system.

    Every method raises :class:`OSError` on failure.
    """

    def open(self, path: StrPath, mode: str) -> FileIO:
        """Open a regular file: ``rb`` to read, ``xb+`` to create, ``ab+`` to append and read."""
        handle = FileIO(path, mode, opener=_open_without_waiting)
        if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
            handle.close()
            raise OSError(errno.EINVAL, "not a regular file")
        return handle

    def size(self, handle: FileIO) -> int:
        """Return the length in bytes."""
        return os.fstat(handle.fileno()).st_size

    def read(self, handle: FileIO, start: int, count: int = -1) -> bytes:
        """Return ``count`` bytes from ``start``, or fewer at the end of the file.

        Without ``count``, return all the rest.
        """
        handle.seek(start)
        return handle.read(count)

    def write(self, handle: FileIO, data: Buffer) -> int:
        """Write some of ``data`` at the end, and return how much.

        A disk may take less than offered.
        """
        return handle.write(data)

    def cut(self, handle: FileIO, size: int) -> None:
        """Shorten the file to ``size`` bytes."""
        handle.truncate(size)

    def sync(self, handle: FileIO) -> None:
        """Return when the content is on the disk."""
        os.fsync(handle.fileno())

    def forget(self, handle: FileIO) -> None:
        """Drop synced content from the system's cache, so that the next read is from the disk."""
        with suppress(AttributeError, OSError):  # advice, which not every system takes
            os.posix_fadvise(handle.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self, handle: FileIO) -> None:
        """Close the file."""
        handle.close()

    def is_replaceable(self, path: Path) -> bool:
        """Return whether a new file of this name destroys no device, pipe or socket."""
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            return True
        special = (stat.S_ISCHR, stat.S_ISBLK, stat.S_ISFIFO, stat.S_ISSOCK)
        return not any(is_kind(mode) for is_kind in special)

    def rename(self, source: Path, target: Path) -> None:
        """Rename ``source`` to ``target`` in one step, replacing a file of that name."""
        source.replace(target)

    def remove(self, path: Path) -> None:
        """Delete a file."""
        path.unlink()

    def make_folder(self, path: Path) -> None:
        """Make one folder, unless it exists."""
        path.mkdir(exist_ok=True)

    def sync_folder(self, path: Path) -> None:
        """Return when names created, renamed or removed in the folder are on the disk."""
        if FOLDERS_SYNC:
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def resolve(self, path: Path) -> Path:
        """Return the absolute path with every symbolic link followed, as far as it exists."""
        return path.resolve()

    def contents(self, path: Path) -> list[Path]:
        """Return the paths in the folder."""
        return sorted(path.iterdir())

    def hold(self, path: Path) -> AbstractContextManager[object] | None:
        """Take the lock ``path``, which the end of a ``with`` frees; ``None`` if another has it."""
        from filelock import FileLock, Timeout

        lock = FileLock(path, timeout=0)
        try:
            return lock.acquire()
        except Timeout:
            return None

    def lock(self, path: Path) -> AbstractContextManager[object]:
        """Hold ``path`` against other processes and threads.

        The system frees it when its holder dies.
        """
        from filelock import FileLock  # here, so that only those who append pay for the import

        return FileLock(path, timeout=LOCK_TIMEOUT, poll_interval=0.002)


def _open_without_waiting(name: str, flags: int) -> int:
    """Open a file as Python does, except that a pipe without a writer does not hang."""
    return os.open(name, flags | NEVER_WAIT, 0o666)


# Tests put a failing disk in its place.
current = Disk()


@contextmanager
def opened(path: Path, mode: str) -> Iterator[FileIO]:
    """Open the file, and close it at the end."""
    handle = current.open(path, mode)
    try:
        yield handle
    finally:
        current.close(handle)


def write_all(handle: FileIO, data: Buffer) -> None:
    """Write until nothing is left: one call may take less than it was given."""
    rest = memoryview(data)
    while rest:
        rest = rest[current.write(handle, rest) :]
