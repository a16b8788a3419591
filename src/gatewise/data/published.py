"""A published file: found below the data folder, and believed only when its sha256 is the published one.

Note [What is believed]

A file is read whole, never more of it than the published size, and its digest is compared before anything looks
inside. So what decompresses and parses it afterwards only ever sees the bytes that its publisher published: a cut,
altered, swapped or foreign file is a :class:`DamagedFileError` that names both digests, and nothing of it is used.
"""

import gzip
import os
from dataclasses import dataclass
from pathlib import Path

from gatewise.errors import DamagedFileError, FileError
from gatewise.files import digest, disk, explained, show

FOLDER_VARIABLE = "GATEWISE_DATA"
LARGEST = 1 << 30  # bytes of a file whose size is not known: more than any of them has


@dataclass(frozen=True)
class Form:
    """The bytes of a file, as published."""

    sha256: str
    size: int | None = None  # where it is known


@dataclass(frozen=True)
class Published:
    """One file: its place below the data folder, and what its publisher put there, unpacked or as .gz or both."""

    path: str
    plain: Form | None = None
    packed: Form | None = None

    @property
    def forms(self) -> dict[str, Form]:
        """By name below the data folder; the first is the one that is published."""
        named = {f"{self.path}.gz": self.packed, self.path: self.plain}
        return {name: form for name, form in named.items() if form}

    @property
    def name(self) -> str:
        """Where the file belongs, as published, below the data folder."""
        return next(iter(self.forms))


def data_folder(folder: str | Path | None = None, *, fetch: str = "") -> Path:
    """``folder``, or the one that ``GATEWISE_DATA`` names; it must exist.

    ``fetch`` is what to do to fill it.
    """
    named = folder if folder is not None else os.environ.get(FOLDER_VARIABLE)
    if not named:
        fix = f"set {FOLDER_VARIABLE} to the folder that holds the data sets"
        raise FileError("no data folder is named", fix=f"{fix}, and {fetch}" if fetch else fix)
    with explained("look at", named):
        if Path(named).is_dir():
            return Path(named)
    raise FileError(
        "the data folder is not a folder",
        got=str(named),
        fix=f"make it, or change {FOLDER_VARIABLE}",
    )


def find(home: Path, file: Published) -> str | None:
    """The name below ``home`` under which the file is there, packed before unpacked.

    None if it is not.
    """
    with explained("look for", home / file.name):
        return next((name for name in file.forms if is_there(home / name)), None)


def is_there(path: Path) -> bool:
    """Whether anything has this name, a broken link included.

    :class:`OSError` where that cannot be known.
    """
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def read_published(
    home: Path, file: Published, *, fetch: str = "fetch the file from its publisher"
) -> bytes:
    """The file's unpacked bytes, or an error that says where it belongs or which digest it has and should have.

    ``fetch`` is what to do to have it.
    """
    name = find(home, file)
    if name is None:
        raise missing(home / file.name, fetch)
    data = _read_checked(home / name, file.forms[name])
    return gzip.decompress(data) if name.endswith(".gz") else data


def missing(path: Path, fetch: str) -> FileError:
    """The error for a file that is not there."""
    return FileError(
        "a file of the data set is missing",
        got=show(path),
        fix=f"{fetch}; the file belongs at that path, and gatewise downloads nothing",
    )


def read_other(home: Path, file: Published, *, fetch: str) -> bytes:
    """The bytes of a file that has the place of the published one, but need not be it."""
    path = home / file.path
    with explained("look for", path):
        if not is_there(path):
            raise missing(path, fetch)
    data = _read(path, LARGEST)
    if len(data) <= LARGEST:
        return data
    raise DamagedFileError(
        f"{show(path)} is too large", got=f"more than {LARGEST} bytes", allowed=f"{LARGEST} bytes"
    )


def _read_checked(path: Path, form: Form) -> bytes:
    limit = form.size or LARGEST
    data = _read(path, limit)
    arrived = digest(data)
    if arrived == form.sha256:
        return data
    length = f"{len(data)} bytes" if len(data) <= limit else f"more than {limit} bytes"
    size = f"{form.size} bytes, " if form.size else ""
    raise DamagedFileError(
        f"{show(path)} is not the published file",
        got=f"{length}, sha256 {arrived} of those read",
        allowed=f"{size}sha256 {form.sha256}",
        fix="fetch the file again from its publisher",
    )


def _read(path: Path, limit: int) -> bytes:
    """All of a file, or one byte more than the limit.

    That shows that it is too long without reading the rest.
    """
    with explained("read", path), disk.opened(path, "rb") as handle:
        wanted, data = min(limit, disk.current.size(handle)) + 1, b""
        while len(data) < wanted and (
            more := disk.current.read(handle, len(data), wanted - len(data))
        ):  # may be short
            data = data + more if data else more
    return data
