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
    from gatewise import data as data
    from gatewise import testing as testing
    from gatewise import train as train

__version__ = "0.1.0"
__all__ = ["create", "data", "errors", "functional", "nn", "testing", "train", "unit", "units"]

_ON_DEMAND = {"data", "testing", "train"}  # parts that take time to import, loaded when first asked for


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        return importlib.import_module(f"gatewise.{name}")
    raise AttributeError(f"module 'gatewise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_ON_DEMAND])
