"""A result as a page: whatever the library made that has one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from gatewise.errors import ArgumentError
from gatewise.files import write_text
from gatewise.report.comparison import comparison_page
from gatewise.report.diagnosis import diagnosis_page, is_diagnosis


@runtime_checkable
class Result(Protocol):
    """What has a page: it can say itself in plain values."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        ...


def write_page(result: Result | Mapping[str, Any], path: str | Path) -> Path:
    """Write ``result`` as one HTML file that needs no other; returns its path.

    It is what :func:`gatewise.diagnose` gives, or a study's result, or the plain values of either
    as read from a file.
    """
    record = result.to_dict() if isinstance(result, Result) else result
    if is_diagnosis(record):
        page = diagnosis_page(record)
    elif isinstance(record, Mapping) and {"cells", "records"} <= record.keys():
        page = comparison_page(record, folder=None)
    else:
        allowed = "a diagnosis, a study's result, or the plain values of one"
        raise ArgumentError("write_page: has no page", got=type(result).__name__, allowed=allowed)
    write_text(Path(path), page)
    return Path(path)
