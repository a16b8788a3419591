"""gatewise: swap, compare and diagnose activation functions and gates in PyTorch models."""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from gatewise import analysis as analysis
    from gatewise import data as data
    from gatewise import errors as errors
    from gatewise import functional as functional
    from gatewise import graph as graph
    from gatewise import layers as layers
    from gatewise import models as models
    from gatewise import nn as nn
    from gatewise import report as report
    from gatewise import sparsity as sparsity
    from gatewise import stats as stats
    from gatewise import studies as studies
    from gatewise import surgery as surgery
    from gatewise import testing as testing
    from gatewise import train as train
    from gatewise import units as units
    from gatewise.analysis import GateMonitor as GateMonitor
    from gatewise.analysis import cost as cost
    from gatewise.analysis import diagnose as diagnose
    from gatewise.analysis import gates as gates
    from gatewise.analysis import identify as identify
    from gatewise.errors import GatewiseError as GatewiseError
    from gatewise.graph import find_sites as find_sites
    from gatewise.report import write_page as write_page
    from gatewise.sparsity import sparsify as sparsify
    from gatewise.studies import compare as compare
    from gatewise.studies import compare_records as compare_records
    from gatewise.surgery import from_pretrained as from_pretrained
    from gatewise.surgery import load_swaps as load_swaps
    from gatewise.surgery import plan as plan
    from gatewise.surgery import receipt as receipt
    from gatewise.surgery import revive as revive
    from gatewise.surgery import save_swaps as save_swaps
    from gatewise.surgery import swap as swap
    from gatewise.surgery import undo as undo
    from gatewise.units import create_unit as create_unit
    from gatewise.units import fuse as fuse
    from gatewise.units import get_unit as get_unit
    from gatewise.units import list_units as list_units
    from gatewise.units import unfuse as unfuse

__version__ = "0.1.0"

# Parts and names are loaded when they are first used, so that the command line can print its help
# without torch.
_PARTS = (
    "analysis",
    "functional",
    "layers",
    "models",
    "nn",
    "sparsity",
    "surgery",
    "testing",
    "units",
)
# Reachable as attributes, too, and needed more rarely.
_OTHER_PARTS = ("data", "errors", "graph", "report", "stats", "studies", "train")
_NAMES = {
    "analysis": (
        "GateMonitor",
        "cost",
        "diagnose",
        "gates",
        "identify",
    ),
    "errors": ("GatewiseError",),
    "graph": ("find_sites",),
    "report": ("write_page",),
    "sparsity": ("sparsify",),
    "studies": (
        "compare",
        "compare_records",
    ),
    "surgery": (
        "from_pretrained",
        "load_swaps",
        "plan",
        "receipt",
        "revive",
        "save_swaps",
        "swap",
        "undo",
    ),
    "units": (
        "create_unit",
        "fuse",
        "get_unit",
        "list_units",
        "unfuse",
    ),
}
_PART_OF = {name: part for part, names in _NAMES.items() for name in names}

__all__ = sorted(  # pyright: ignore[reportUnsupportedDunderAll] - the tables above are the list
    [*_PARTS, *_PART_OF]
)


def __getattr__(name: str) -> object:
    if name in _PARTS or name in _OTHER_PARTS:
        return _importlib.import_module(f"gatewise.{name}")
    if name in _PART_OF:
        value = getattr(_importlib.import_module(f"gatewise.{_PART_OF[name]}"), name)
        globals()[name] = value  # the next use finds it without this function
        return value
    raise AttributeError(f"module 'gatewise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
