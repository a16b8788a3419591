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
