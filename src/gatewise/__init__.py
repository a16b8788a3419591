"""gatewise: the workbench for neural-network nonlinearities."""

import importlib
from typing import TYPE_CHECKING, Any

from gatewise import errors as errors
from gatewise import functional as functional
from gatewise import nn as nn
from gatewise.sites import read_sites as sites
from gatewise.units import create as create
from gatewise.units import find_unit as unit
from gatewise.units import units as units

if TYPE_CHECKING:
    from gatewise import testing as testing
    from gatewise.surgery import deploy as deploy
    from gatewise.surgery import merge_curve as merge_curve
    from gatewise.surgery import merge_pairs as merge_pairs
    from gatewise.surgery import orthogonalize as orthogonalize
    from gatewise.surgery import plan as plan
    from gatewise.surgery import receipt as receipt
    from gatewise.surgery import swap as swap
    from gatewise.surgery import undo as undo

__version__ = "0.1.0"
__all__ = [
    "create",
    "deploy",
    "errors",
    "functional",
    "merge_curve",
    "merge_pairs",
    "nn",
    "orthogonalize",
    "plan",
    "receipt",
    "sites",
    "swap",
    "testing",
    "undo",
    "unit",
    "units",
]

# What takes time to import, loaded when first asked for: parts, and functions with the part they are in.
_SURGERY = ("deploy", "merge_curve", "merge_pairs", "orthogonalize", "plan", "receipt", "swap", "undo")
_ON_DEMAND = {"testing": None, **dict.fromkeys(_SURGERY, "surgery")}


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        part = importlib.import_module(f"gatewise.{_ON_DEMAND[name] or name}")
        return getattr(part, name) if _ON_DEMAND[name] else part
    raise AttributeError(f"module 'gatewise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_ON_DEMAND])
