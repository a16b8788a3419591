"""Write any result of the library that has a page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from gatewise.errors import ArgumentError
from gatewise.files import write_text
from gatewise.report.comparison import comparison_page
from gatewise.report.diagnosis import diagnosis_page, is_diagnosis
from gatewise.report.sparse_models import is_sparsity, sparsity_page


@runtime_checkable
class Result(Protocol):
    """A result that can be converted to plain values."""

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        ...


def write_page(result: Result | Mapping[str, Any], path: str | Path) -> Path:
    """Write ``result`` as one HTML file that needs no other file and no network.

    Args:
        result: What :func:`gatewise.diagnose`, :func:`gatewise.sparsify` or a study returns, or
            the plain values of one as read from a file.
        path: The file to write.

    Returns:
        The path of the page.

    Raises:
        ArgumentError: If the result has no page.
    """
    record = result.to_dict() if isinstance(result, Result) else result
    if is_diagnosis(record):
        page = diagnosis_page(record)
    elif is_sparsity(record):
        page = sparsity_page(record)
    elif isinstance(record, Mapping) and {"header", "records"} <= record.keys():
        page = comparison_page(record)
    else:
        raise ArgumentError(
            "write_page: this result has no page",
            got=type(result).__name__,
            allowed="a diagnosis, a sparse model, the result of a study, or plain values of one",
        )
    write_text(Path(path), page)
    return Path(path)
