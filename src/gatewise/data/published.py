"""Read published files below the data folder, if their sha256 is the published one.

Note [Checked files]. A file is read whole, but never more of it than the published size, and its
digest is compared before anything looks inside. So the code that decompresses and parses it only
gets the bytes that were published. A truncated, altered or different file raises a
:class:`DamagedFileError` that names both digests, and nothing of it is used.
"""

import errno
import gzip
import os
from dataclasses import dataclass
from pathlib import Path

from gatewise.errors import DamagedFileError, FileError
from gatewise.files import digest, explained, show

FOLDER_VARIABLE = "GATEWISE_DATA"
LARGEST = 1 << 30  # bytes of a file whose size is not known: more than any of them has


@dataclass(frozen=True)
class Form:
    """The bytes of a file, as published.

    Attributes:
        sha256: the digest.
        size: in bytes; ``None`` where it is not known.
    """

    sha256: str
    size: int | None = None


@dataclass(frozen=True)
class Published:
    """A published file: its path below the data folder, and its bytes, plain, as .gz, or both."""

    path: str
    plain: Form | None = None
    packed: Form | None = None

    @property
    def forms(self) -> dict[str, Form]:
        """The forms by name below the data folder; the first is the one that is published."""
        forms = {}
        if self.packed:
            forms[f"{self.path}.gz"] = self.packed
        if self.plain:
            forms[self.path] = self.plain
        return forms

    @property
    def name(self) -> str:
        """The name of the published form below the data folder."""
        return next(iter(self.forms))


def data_folder(folder: str | Path | None = None, *, fetch: str = "") -> Path:
    """Return the folder of the data sets.

    Args:
        folder: the folder; the one that ``GATEWISE_DATA`` names unless given.
        fetch: how to fill the folder, for messages.

    Raises:
        FileError: no folder is named, or it does not exist.
    """
    path = folder if folder is not None else os.environ.get(FOLDER_VARIABLE)
    if not path:
        fix = f"set {FOLDER_VARIABLE} to the folder that holds the data sets"
        raise FileError("no data folder is named", fix=f"{fix}, and {fetch}" if fetch else fix)
    with explained("look at", path):
        if Path(path).is_dir():
            return Path(path)
    raise FileError(
        "the data folder is not a folder",
        got=str(path),
        fix=f"create it, or change {FOLDER_VARIABLE}",
    )


def find(home: Path, file: Published) -> str | None:
    """Return the name below ``home`` of the packed or the plain file, if there is one."""
    with explained("look for", home / file.name):
        return next((name for name in file.forms if is_there(home / name)), None)


def is_there(path: Path) -> bool:
    """Return whether anything has this name, a broken link included; raise OSError if unknown."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def read_published(
    home: Path,
    file: Published,
    *,
    fetch: str = "fetch the file from its publisher",
) -> bytes:
    """Return the unpacked bytes of a published file.

    Args:
        home: the data folder.
        file: the file.
        fetch: how to get the file, for messages.

    Raises:
        FileError: the file is missing; the message says where it belongs.
        DamagedFileError: the file is not the published one; the message has both digests.
    """
    name = find(home, file)
    if name is None:
        raise missing(home / file.name, fetch)
    data = _read_checked(home / name, file.forms[name])
    if name.endswith(".gz"):
        return gzip.decompress(data)
    return data


def missing(path: Path, fetch: str) -> FileError:
    """Return the error for a file that is not there."""
    return FileError(
        "a file of the data set is missing",
        got=show(path),
        fix=f"{fetch}; the file belongs at that path, and gatewise downloads nothing",
    )


def read_other(home: Path, file: Published, *, fetch: str) -> bytes:
    """Return the bytes of a file in the place of the published one, which need not be it.

    Args:
        home: the data folder.
        file: the published file, for its place.
        fetch: how to get the file, for messages.
    """
    path = home / file.path
    with explained("look for", path):
        if not is_there(path):
            raise missing(path, fetch)
    data = _read(path, LARGEST)
    if len(data) <= LARGEST:
        return data
    raise DamagedFileError(
        f"{show(path)} is too large",
        got=f"more than {LARGEST} bytes",
        allowed=f"{LARGEST} bytes",
    )


def _read_checked(path: Path, form: Form) -> bytes:
    # A longer file is not read to its end: one byte more is enough to refuse it.
    limit = form.size or LARGEST
    data = _read(path, limit)
    actual = digest(data)
    if actual == form.sha256:
        return data
    length = f"{len(data)} bytes" if len(data) <= limit else f"more than {limit} bytes"
    size = f"{form.size} bytes, " if form.size else ""
    raise DamagedFileError(
        f"{show(path)} is not the published file",
        got=f"{length}, sha256 {actual} of those read",
        allowed=f"{size}sha256 {form.sha256}",
        fix="fetch the file again from its publisher",
    )


def _read(path: Path, limit: int) -> bytes:
    """Return all of a file, or one byte more than the limit.

    One more byte shows that the file is too long, without reading the rest.
    """
    with explained("read", path):
        if path.exists() and not path.is_file():  # reading a pipe would wait for a writer
            raise OSError(errno.EINVAL, "not a regular file")
        with path.open("rb") as file:
            return file.read(limit + 1)
