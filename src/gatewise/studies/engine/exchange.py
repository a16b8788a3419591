"""Records outside the database: a header and sorted lines of JSON, which are kept and shared."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gatewise.errors import ArgumentError, DamagedFileError, FileError
from gatewise.files import decode_json, write_text
from gatewise.studies.engine.cell import DIVERGED, DONE, FAILED, Record, without_times
from gatewise.studies.engine.study_file import StudyFile

FORMAT = "gatewise study"
STATUSES = (DONE, DIVERGED, FAILED)
LARGEST = 1 << 30  # bytes
ORDER = ("model", "unit", "step", "seed", "name")
KEY = "key"


def export_study(
    path: str | Path, header: Mapping[str, Any], records: Mapping[str, Record]
) -> None:
    """Write the header and then the records, sorted, each with the key of its cell.

    Args:
        path: the file, usually ``study.jsonl``.
        header: what the study says about itself.
        records: by key.
    """
    lines = [{"format": FORMAT, **header}]
    lines += sorted(({KEY: key, **record} for key, record in records.items()), key=_place)
    write_text(Path(path), "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines))


def import_study(path: str | Path) -> tuple[dict[str, Any], dict[str, Record]]:
    """Read what :func:`export_study` wrote.

    Returns:
        The header, and the records by key.

    Raises:
        DamagedFileError: naming the line that is not a header or a record.
    """
    path = Path(path)
    try:
        if path.stat().st_size > LARGEST:
            raise DamagedFileError("the file is too large for a study", got=str(path))
        lines = path.read_text("utf-8").splitlines()
    except UnicodeDecodeError as problem:
        raise DamagedFileError("the file is not text", got=str(path)) from problem
    except OSError as problem:
        raise FileError(
            "the records cannot be read", got=f"{path}: {problem.strerror}"
        ) from problem
    header = _object(path, 1, lines[0] if lines else "")
    if header.get("format") != FORMAT:
        raise _damaged(path, 1, f"its first line does not say {FORMAT!r}")
    records: dict[str, Record] = {}
    for number, line in enumerate(lines[1:], 2):
        record = _object(path, number, line)
        key = record.pop(KEY, None)
        if not isinstance(key, str) or not key or key in records:
            raise _damaged(path, number, "a key of its own is needed")
        if record.get("status") not in STATUSES:
            raise _damaged(path, number, f"its status is not one of {', '.join(STATUSES)}")
        records[key] = record
    return header, records


def sorted_records(records: Mapping[str, Record]) -> list[Record]:
    """Return the records in the order of the export."""
    return sorted(records.values(), key=_place)


def _place(record: Mapping[str, Any]) -> list[Any]:
    """Return what records are sorted by; those that lack a field come first."""
    words = []
    for name in ORDER:
        value = record.get(name)
        is_number = isinstance(value, int | float)
        words.append((is_number, value if is_number else str(value or "")))
    return [*words, str(record.get(KEY, ""))]


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    """Return the JSON object of a line, whose numbers are finite."""
    try:
        content = decode_json(line.encode())
    except ValueError as problem:
        raise _damaged(path, number, str(problem)) from None
    if not isinstance(content, dict):
        raise _damaged(path, number, "no object")
    return content


def _damaged(path: Path, number: int, what: str) -> DamagedFileError:
    """Return the error of a line."""
    return DamagedFileError(f"line {number} is not of a study", got=f"{path}: {what}")


def read_records(path: str | Path) -> tuple[dict[str, Any], dict[str, Record]]:
    """Read a study from its export, its database, or a folder with one or several of these.

    Databases of several shards are joined.

    Args:
        path: of the file or folder.

    Returns:
        The header, and the records by key.

    Raises:
        DamagedFileError: if a file is not one of a study, or two disagree.
    """
    path = Path(path)
    if path.suffix == ".sqlite":
        return StudyFile(path).header(), StudyFile(path).records()
    if path.suffix == ".jsonl":
        return import_study(path)
    files = sorted(path.glob("*.sqlite")) or sorted(path.glob("*.jsonl"))
    if not files:
        raise ArgumentError(
            "there is no study in this folder",
            got=str(path),
            fix="name the folder of a study, which was given as out=FOLDER, or a study.jsonl",
        )
    header, joined = read_records(files[0])
    for file in files[1:]:
        other, records = read_records(file)
        if _plan(other) != _plan(header):
            raise DamagedFileError("these files are of two studies", got=f"{files[0]}, {file}")
        for key, record in records.items():
            known = joined.setdefault(key, record)
            if without_times(known) != without_times(record):
                raise DamagedFileError("two files have other records of one run", got=f"{file}")
    return header, joined


def _plan(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the parts of a study have in common."""
    return {name: header.get(name) for name in ("name", "models", "units", "rates", "baseline")}
