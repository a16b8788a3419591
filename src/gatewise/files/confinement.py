"""A name from outside as a path that stays inside a folder.

Note [Which names]

A name has one or more parts, joined by ``/``. Each part must mean the same file on Linux, macOS and
Windows: no ``..``, nothing absolute, no backslash, colon or other character that Windows
interprets, no device name, nothing invisible, nothing at the end that Windows drops, at most 255
bytes. A name must be in Unicode's normal form C. Another spelling of the same letters is an error
and is not rewritten, because rewriting could make one file out of two names. A symbolic link is
followed and must lead to a place below the folder. This does not protect from someone who changes
links in the folder at the same time.
"""

import re
from pathlib import Path
from unicodedata import is_normalized

from gatewise.errors import UnsafePathError
from gatewise.files.atomic import is_temporary
from gatewise.files.failure import StrPath, show

LONGEST_PART = 255  # bytes: what ext4, APFS and NTFS take
LONGEST_NAME = 1000  # bytes: leaves space for the folder within the 4096 that Linux takes
DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *(\..*)?", re.IGNORECASE)
ALLOWED = (
    "parts joined by '/', in Unicode normal form C, that every system reads as a plain file name"
)


def confine(folder: StrPath, name: str) -> Path:
    """Return the path of ``name`` below ``folder``, which need not exist.

    Args:
        folder: the folder.
        name: a name from outside.

    Raises:
        UnsafePathError: if the name is not safe. See Note [Which names].
    """
    fault = _fault(name)
    if fault is None and not _stays_below(Path(folder), name):
        fault = "a symbolic link leads out of the folder"
    if fault is not None:
        raise UnsafePathError(
            f"the name is not safe to use in {show(folder)}: {fault}",
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
    for part in name.split("/"):
        fault = _fault_of_part(part)
        if fault is not None:
            return fault
    return None


def _fault_of_part(part: str) -> str | None:
    length = len(part.encode(errors="replace"))
    faults = {
        "a part of it is empty": not part,
        "a part of it is a dot or two": part in (".", ".."),
        "it has a character that cannot be seen": not part.isprintable(),
        'it has one of the signs \\ : * ? " < > |': not set('\\:*?"<>|').isdisjoint(part),
        "a part of it ends in a dot or a space": part.endswith((".", " ")),
        "a part of it begins with a space": part.startswith(" "),
        "a part of it is the name of a device": DEVICE.fullmatch(part) is not None,
        "a part of it is the name of an unfinished write": is_temporary(part),
        f"a part of it is longer than {LONGEST_PART} bytes": length > LONGEST_PART,
    }
    for fault, applies in faults.items():
        if applies:
            return fault
    return None


def _stays_below(folder: Path, name: str) -> bool:
    try:
        return folder.resolve() in (folder / name).resolve().parents
    except (OSError, RuntimeError):  # links in a circle, or a folder that may not be read
        return False
