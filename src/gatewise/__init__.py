"""gatewise: the workbench for neural-network nonlinearities."""

import importlib
from typing import TYPE_CHECKING, Any

from gatewise import errors as errors
from gatewise import functional as functional
from gatewise import nn as nn
from gatewise.units import create as create
from gatewise.units import find_unit as unit
from gatewise.units import units as units

if TYPE_CHECKING:
    from gatewise import analysis as analysis
    from gatewise import testing as testing
    from gatewise.analysis import AlignmentTracker as AlignmentTracker
    from gatewise.analysis import alignment as alignment
    from gatewise.analysis import ideal_spectrum as ideal_spectrum
    from gatewise.analysis import ntk as ntk
    from gatewise.analysis import path_kernel as path_kernel
    from gatewise.analysis import paths as paths
    from gatewise.analysis import spectrum as spectrum
    from gatewise.analysis import subnetworks as subnetworks

__version__ = "0.1.0"
__all__ = [
    "AlignmentTracker",
    "alignment",
    "analysis",
    "create",
    "errors",
    "functional",
    "ideal_spectrum",
    "nn",
    "ntk",
    "path_kernel",
    "paths",
    "spectrum",
    "subnetworks",
    "testing",
    "unit",
    "units",
]

_ON_DEMAND = {"analysis", "testing"}  # parts that take time to import, loaded when first asked for
_FROM_PARTS = {
    "AlignmentTracker": "analysis",
    "alignment": "analysis",
    "ideal_spectrum": "analysis",
    "ntk": "analysis",
    "path_kernel": "analysis",
    "paths": "analysis",
    "spectrum": "analysis",
    "subnetworks": "analysis",
}  # a name, and the part it is loaded from


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        return importlib.import_module(f"gatewise.{name}")
    if name in _FROM_PARTS:
        return getattr(importlib.import_module(f"gatewise.{_FROM_PARTS[name]}"), name)
    raise AttributeError(f"module 'gatewise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_ON_DEMAND, *_FROM_PARTS])
