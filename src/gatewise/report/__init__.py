<<<<<<< HEAD
"""Records in, one HTML file out. Knows nothing of units, runs or studies: only the plain records of `records`."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gatewise.report.diagnosis import diagnosis_page as diagnosis_page
    from gatewise.report.diagnosis import write_diagnosis as write_diagnosis
    from gatewise.report.writing import write_page as write_page

_HOMES = {"diagnosis_page": "diagnosis", "write_diagnosis": "diagnosis", "write_page": "writing"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"gatewise.report.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'gatewise.report' has no attribute {name!r}")
=======
"""Records in, one HTML file out.

The parts that draw know nothing of units, runs or studies, only the plain records of `records`, `charts` and `sheet`.
`comparison` fills those from the plain result of a study.
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
>>>>>>> g2
