"""A result as a page: whatever the library made that has one."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from gatewise.errors import ArgumentError
from gatewise.files import write_text
from gatewise.report.diagnosis import FORMAT, diagnosis_page

# What a result's own record says it is, and what makes its page.
PAGES: dict[str, Callable[[Mapping[str, Any]], str]] = {FORMAT: diagnosis_page}


class Result(Protocol):
    """What has a page: it can say itself in plain values."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values; ``format`` says of what kind."""
        ...


def write_page(result: Result | Mapping[str, Any], path: str | Path) -> Path:
    """Write ``result``, such as of :func:`gatewise.diagnose`, as one HTML file that needs no other; returns its path.

    ``result`` may also be its ``to_dict()``, as read from a file.
    """
    record = result if isinstance(result, Mapping) else result.to_dict() if hasattr(result, "to_dict") else {}
    make = PAGES.get(str(record.get("format")))
    if make is None:
        raise ArgumentError("write_page: has no page", got=type(result).__name__, allowed=", ".join(PAGES))
    write_text(Path(path), make(record))
    return Path(path)
