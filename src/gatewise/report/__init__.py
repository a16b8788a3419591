"""Records in, one HTML file out.

The parts that draw know nothing of units, runs or studies, only the plain records of `records`, `charts` and `sheet`.
`comparison` fills those from the plain result of a study, `diagnosis` from that of a diagnosis.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def comparison_page(result: Mapping[str, Any], *, folder: str | None = "") -> str:
    """The page of a study; see :func:`gatewise.report.comparison.comparison_page`."""
    from gatewise.report import comparison  # here, so that other pages do not wait for what studies import

    return comparison.comparison_page(result, folder=folder)


def write_comparison(result: Mapping[str, Any], out: str | Path, study: str | Path | None = None) -> Path:
    """Write the page of a study; see :func:`gatewise.report.comparison.write_comparison`."""
    from gatewise.report import comparison

    return comparison.write_comparison(result, out, study)


def diagnosis_page(diagnosis: Mapping[str, Any]) -> str:
    """The page of a diagnosis; see :func:`gatewise.report.diagnosis.diagnosis_page`."""
    from gatewise.report import diagnosis as pages

    return pages.diagnosis_page(diagnosis)


def write_diagnosis(diagnosis: Mapping[str, Any], folder: str | Path) -> tuple[Path, Path]:
    """Write the page and the JSON of a diagnosis; see :func:`gatewise.report.diagnosis.write_diagnosis`."""
    from gatewise.report import diagnosis as pages

    return pages.write_diagnosis(diagnosis, folder)


def write_page(result: Any, path: str | Path) -> Path:
    """Write the page of a diagnosis or of a study's result; see :func:`gatewise.report.writing.write_page`."""
    from gatewise.report import writing

    return writing.write_page(result, path)
