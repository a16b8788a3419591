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
    from gatewise.analysis import *  # noqa: F403

__version__ = "0.1.0"
__all__ = [
    "alignment", "analysis", "create", "errors", "functional", "ideal_spectrum", "nn", "spectrum", "testing", "unit",
    "units",
]  # fmt: skip

_ON_DEMAND = {"analysis", "testing"}  # parts that take time to import, loaded when first asked for
_ANALYSIS = {"alignment", "ideal_spectrum", "orthogonality", "pairing", "reconstruct", "spectrum"}  # functions of the part of that name, loaded with it


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        return importlib.import_module(f"gatewise.{name}")
    if name in _ANALYSIS:
        return getattr(importlib.import_module("gatewise.analysis"), name)
    raise AttributeError(f"module 'gatewise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_ON_DEMAND, *_ANALYSIS])
