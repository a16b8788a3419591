"""Errors of the disk as our errors: one sentence, the path, and what to do."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from typing import TypeAlias

from gatewise.errors import DamagedFileError, FileError, GatewiseError, shorten

StrPath: TypeAlias = str | PathLike[str]
FIXES = {
    errno.ENOSPC: "free some space on that disk, or choose a folder on another",
    errno.EDQUOT: "free some of your quota on that disk, or choose a folder on another",
    errno.EFBIG: "choose a disk that takes larger files",
    errno.EROFS: "choose a folder on a disk that is not read-only",
    errno.EACCES: "change the permissions of the file and its folder, or choose another folder",
    errno.EPERM: "change the permissions of the file and its folder, or choose another folder",
    errno.EIO: "check the disk or its connection, and use a copy on another",
    errno.ENOENT: "check the spelling of the path, and make its folder first",
    errno.ENOTDIR: "check the spelling of the path: a part of it is a file, not a folder",
    errno.EISDIR: "name a file: this is a folder",
    errno.EEXIST: "choose another name: this one is taken",
    errno.EINVAL: "name an ordinary file, not a device, a pipe or a socket",
    errno.ELOOP: "remove the symbolic links that lead in a circle",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EMFILE: "close some files, or raise the limit on open files",
    errno.ENFILE: "close some files, or raise the limit on open files",
}
ANY_FIX = "check that the path names an ordinary file in a folder you may use"


def show(path: StrPath) -> str:
    """Return the path for a message: on one line, with its end kept."""
    text = fspath(path)
    return shorten(text if len(text) <= 1000 else f"…{text[-999:]}", 1000)


@contextmanager
def explained(action: str, path: StrPath) -> Iterator[None]:
    """Turn errors of the system inside the block into a :class:`FileError` that names ``path``.

    Args:
        action: what was being done, as a verb.
        path: the file or folder.
    """
    try:
        yield
    except GatewiseError:
        raise
    except (OSError, ValueError, MemoryError) as problem:
        # ValueError: a path that cannot be passed to the system.
        raise _failure(action, path, problem) from problem


def _failure(action: str, path: StrPath, problem: Exception) -> FileError:
    number = getattr(problem, "errno", None)
    why = getattr(problem, "strerror", None) or str(problem) or "not enough memory"
    error = FileError(f"cannot {action} {show(path)}", got=why, fix=FIXES.get(number or 0, ANY_FIX))
    error.errno = number
    return error


def damaged(path: StrPath, why: str) -> DamagedFileError:
    """Return the error for content that is not what was written."""
    return DamagedFileError(
        f"{show(path)} is damaged, or not a file of this kind",
        got=why,
        allowed="a file as it was written",
        fix="use a copy of the file, or delete it and make it again",
    )
