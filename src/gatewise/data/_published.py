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
from gatewise.files import digest
from gatewise.files._failure import explained

FOLDER_VARIABLE = "GATEWISE_DATA"


@dataclass(frozen=True)
class Published:
    """One file: its place below the data folder, and what its publisher put there, packed and unpacked."""

    path: str
    size: int
    sha256: str
    packed_size: int
    packed_sha256: str


def data_folder(folder: str | Path | None = None) -> Path:
    """``folder``, or the one that ``GATEWISE_DATA`` names; it must exist."""
    named = folder if folder is not None else os.environ.get(FOLDER_VARIABLE)
    if not named:
        raise FileError("no data folder is named", fix=f"set {FOLDER_VARIABLE} to the folder that holds the data sets")
    if Path(named).is_dir():
        return Path(named)
    raise FileError("the data folder is not a folder", got=str(named), fix=f"make it, or change {FOLDER_VARIABLE}")


def read_published(folder: Path, file: Published) -> bytes:
    """The file's unpacked bytes, from ``file.path`` and ".gz" if that is there, else from ``file.path``."""
    packed, plain = folder / f"{file.path}.gz", folder / file.path
    with explained("look for", packed):
        found = [path for path in (packed, plain) if os.path.lexists(path)]
    if not found:
        raise FileError(
            "a file of the data set is missing", got=str(packed),
            fix="put the file as published there; gatewise downloads nothing",
        )  # fmt: skip
    if found[0] == plain:
        return _read_checked(plain, file.size, file.sha256)
    return gzip.decompress(_read_checked(packed, file.packed_size, file.packed_sha256))


def _read_checked(path: Path, size: int, sha256: str) -> bytes:
    with explained("read", path), path.open("rb") as handle:
        data = handle.read(size + 1)  # one more shows that a file is too long without reading the rest of it
    arrived = digest(data)
    if arrived == sha256:
        return data
    length = f"{len(data)} bytes" if len(data) <= size else f"more than {size} bytes"
    raise DamagedFileError(
        f"{path} is not the published file", got=f"{length}, sha256 {arrived} of those read",
        allowed=f"{size} bytes, sha256 {sha256}", fix="fetch the file again from its publisher",
    )  # fmt: skip
