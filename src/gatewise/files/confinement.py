"""A name from outside, as a path that stays inside a folder.

Note [Which names]

One or more parts joined by ``/``, each of which means the same file on Linux, macOS and Windows: no
``..``, nothing absolute, no backslash, colon or other sign that Windows reads, no device name,
nothing invisible, nothing at the end that Windows drops, no more than 255 bytes. A name must be in
Unicode's normal form C: another spelling of the same letters is refused, not rewritten, because
rewriting could make one file out of two names. A symbolic link is followed and must lead to
somewhere below the folder. Someone who can change links in the folder while we work is not kept
out.
"""

import re
from pathlib import Path
from unicodedata import is_normalized

from gatewise.errors import UnsafePathError
from gatewise.files import disk
from gatewise.files.atomic import is_temporary
from gatewise.files.disk import StrPath
from gatewise.files.failure import show

LONGEST_PART = 255  # bytes: what ext4, APFS and NTFS take
LONGEST_NAME = 1000  # bytes: leaves room for the folder within the 4096 that Linux takes
DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *(\..*)?", re.IGNORECASE)
ALLOWED = (
    "parts joined by '/', in Unicode normal form C, that every system reads as a plain file name"
)


def confine(folder: StrPath, name: str) -> Path:
    """The path of ``name`` below ``folder``, or :class:`UnsafePathError`.

    Nothing needs to exist yet.
    """
    why = _fault(name)
    if why is None and not _stays_below(Path(folder), name):
        why = "a symbolic link leads out of the folder"
    if why is not None:
        raise UnsafePathError(
            f"the name is not safe to use in {show(folder)}: {why}",
            got=ascii(name),
            allowed=ALLOWED,
            fix="choose another name",
        )
    return Path(folder, name)


def _fault(name: object) -> str | None:
    if not isinstance(name, str):
        return "it is not a string"
    if len(name) > LONGEST_NAME or len(name.encode(errors="replace")) > LONGEST_NAME:
        return f"it is longer than {LONGEST_NAME} bytes"
    if not is_normalized("NFC", name):
        return "it is not in Unicode normal form C"
    return next(filter(None, map(_fault_of_part, name.split("/"))), None)


def _fault_of_part(part: str) -> str | None:
    faults = {
        "a part of it is empty": not part,
        "a part of it is a dot or two": part in (".", ".."),
        "it has a character that cannot be seen": not part.isprintable(),
        'it has one of the signs \\ : * ? " < > |': not set('\\:*?"<>|').isdisjoint(part),
        "a part of it ends in a dot or a space": part.endswith((".", " ")),
        "a part of it begins with a space": part.startswith(" "),
        "a part of it is the name of a device": DEVICE.fullmatch(part) is not None,
        "a part of it is the name of an unfinished write": is_temporary(part),
        f"a part of it is longer than {LONGEST_PART} bytes": len(part.encode(errors="replace"))
        > LONGEST_PART,
    }
    return next((why for why, found in faults.items() if found), None)


def _stays_below(folder: Path, name: str) -> bool:
    try:
        return disk.disc.resolve(folder) in disk.disc.resolve(folder / name).parents
    except (
        OSError,
        RuntimeError,
    ):  # links that lead in a circle, or a folder that may not be looked at
        return False
