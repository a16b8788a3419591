"""The one object through which this package touches the disc, so that a test can put a failing disc in its place."""

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

LOCK_TIMEOUT = (
    60.0  # seconds; a holder that dies frees the lock at once, so only a stuck one is waited for
)
FOLDERS_SYNC = os.name != "nt"  # Windows cannot open a folder, and makes a rename durable by itself
NEVER_WAIT = getattr(os, "O_NONBLOCK", 0)  # opening a named pipe must not hang

NO_LINKS = {
    errno.EPERM,
    errno.EMLINK,
    errno.ENOSYS,
    errno.EOPNOTSUPP,
    errno.ENOTSUP,
}  # what such discs say


class Disc:
    """Unbuffered files and folders of the operating system.

    Every method raises :class:`OSError` on failure.
    """

    def open(self, path: Path, mode: str) -> FileIO:
        """Open a regular file: ``rb`` to read, ``xb+`` to create, ``ab+`` to append and read."""
        handle = FileIO(
            path, mode, opener=lambda name, flags: os.open(name, flags | NEVER_WAIT, 0o666)
        )
        if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
            handle.close()
            raise OSError(errno.EINVAL, "not a regular file")
        return handle

    def size(self, handle: FileIO) -> int:
        """Length in bytes."""
        return os.fstat(handle.fileno()).st_size

    def read(self, handle: FileIO, start: int, count: int = -1) -> bytes:
        """``count`` bytes from ``start``, fewer at the end of the file.

        All the rest without ``count``.
        """
        handle.seek(start)
        return handle.read(count)

    def write(self, handle: FileIO, data: Buffer) -> int:
        """Write some of ``data`` at the end, and return how much.

        A disc may take less than offered.
        """
        return handle.write(data)

    def cut(self, handle: FileIO, size: int) -> None:
        """Shorten the file to ``size`` bytes."""
        handle.truncate(size)

    def sync(self, handle: FileIO) -> None:
        """Return when the content is on the medium."""
        os.fsync(handle.fileno())

    def forget(self, handle: FileIO) -> None:
        """Drop synced content from the system's cache, so that the next read comes from the medium."""
        with suppress(AttributeError, OSError):  # advice, which not every system takes
            os.posix_fadvise(handle.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self, handle: FileIO) -> None:
        """Let go of the file."""
        handle.close()

    def is_replaceable(self, path: Path) -> bool:
        """Whether giving its name to a new file destroys no device, pipe or socket."""
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            return True
        return not any(
            special(mode) for special in (stat.S_ISCHR, stat.S_ISBLK, stat.S_ISFIFO, stat.S_ISSOCK)
        )

    def rename(self, source: Path, target: Path) -> None:
        """Give ``source`` the name ``target``, replacing what had it, in one step."""
        source.replace(target)

    def claim(self, source: Path, target: Path) -> None:
        """Give ``source`` the name ``target`` unless something has it.

        Then FileExistsError, and both are as before.
        """
        try:
            os.link(source, target)
        except FileExistsError:
            raise
        except OSError as problem:
            if problem.errno not in NO_LINKS:
                raise
            if target.exists():  # not in one step: the best that a disc without hard links can do
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from problem
            source.replace(target)
        else:
            source.unlink()

    def remove(self, path: Path) -> None:
        """Delete a file."""
        path.unlink()

    def make_folder(self, path: Path) -> None:
        """Make one folder, unless it is there."""
        path.mkdir(exist_ok=True)

    def sync_folder(self, path: Path) -> None:
        """Return when names created, renamed or removed in the folder are on the medium."""
        if FOLDERS_SYNC:
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def resolve(self, path: Path) -> Path:
        """The absolute path with every symbolic link followed, as far as it exists."""
        return path.resolve()

    def contents(self, path: Path) -> list[Path]:
        """What the folder holds."""
        return sorted(path.iterdir())

    def hold(self, path: Path) -> AbstractContextManager[object] | None:
        """The lock ``path``, already taken, to be freed at the end of a ``with``.

        None if another has it.
        """
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


disc = Disc()


@contextmanager
def opened(path: Path, mode: str) -> Iterator[FileIO]:
    """The open file, closed at the end."""
    handle = disc.open(path, mode)
    try:
        yield handle
    finally:
        disc.close(handle)


def write_all(handle: FileIO, data: Buffer) -> None:
    """Write until nothing is left: one call may take less than it was given."""
    rest = memoryview(data)
    while rest:
        rest = rest[disc.write(handle, rest) :]
