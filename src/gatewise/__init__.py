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
    from gatewise.analysis import affine_map as affine_map
    from gatewise.analysis import corner_crops as corner_crops
    from gatewise.analysis import cost as cost
    from gatewise.analysis import diagnose as diagnose
    from gatewise.analysis import film as film
    from gatewise.analysis import gate_flips as gate_flips
    from gatewise.analysis import gate_overlap as gate_overlap
    from gatewise.analysis import gates as gates
    from gatewise.analysis import ideal_spectrum as ideal_spectrum
    from gatewise.analysis import identify as identify
    from gatewise.analysis import invariance as invariance
    from gatewise.analysis import ntk as ntk
    from gatewise.analysis import orthogonality as orthogonality
    from gatewise.analysis import pairing as pairing
    from gatewise.analysis import partition as partition
    from gatewise.analysis import rademacher as rademacher
    from gatewise.analysis import reconstruct as reconstruct
    from gatewise.analysis import region_prior as region_prior
    from gatewise.analysis import spectrum as spectrum
    from gatewise.analysis import term_s_range as term_s_range
    from gatewise.graph import find_sites as find_sites
    from gatewise.models import create_model as create_model
    from gatewise.models import get_model as get_model
    from gatewise.models import list_models as list_models
    from gatewise.report import write_page as write_page
    from gatewise.sparsity import measure_sparsity as measure_sparsity
    from gatewise.sparsity import relufy as relufy
    from gatewise.sparsity import sparsify as sparsify
    from gatewise.studies import LightningRecorder as LightningRecorder
    from gatewise.studies import TransformersRecorder as TransformersRecorder
    from gatewise.studies import compare as compare
    from gatewise.studies import compare_records as compare_records
    from gatewise.surgery import deploy as deploy
    from gatewise.surgery import from_pretrained as from_pretrained
    from gatewise.surgery import load_swaps as load_swaps
    from gatewise.surgery import match as match
    from gatewise.surgery import merge_curve as merge_curve
    from gatewise.surgery import merge_pairs as merge_pairs
    from gatewise.surgery import orthogonalize as orthogonalize
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
    "data",
    "errors",
    "functional",
    "graph",
    "layers",
    "models",
    "nn",
    "report",
    "sparsity",
    "stats",
    "studies",
    "surgery",
    "testing",
    "train",
    "units",
)
_NAMES = {
    "analysis": (
        "GateMonitor",
        "affine_map",
        "corner_crops",
        "cost",
        "diagnose",
        "film",
        "gate_flips",
        "gate_overlap",
        "gates",
        "ideal_spectrum",
        "identify",
        "invariance",
        "ntk",
        "orthogonality",
        "pairing",
        "partition",
        "rademacher",
        "reconstruct",
        "region_prior",
        "spectrum",
        "term_s_range",
    ),
    "graph": ("find_sites",),
    "models": (
        "create_model",
        "get_model",
        "list_models",
    ),
    "report": ("write_page",),
    "sparsity": ("measure_sparsity", "relufy", "sparsify"),
    "studies": (
        "LightningRecorder",
        "TransformersRecorder",
        "compare",
        "compare_records",
    ),
    "surgery": (
        "deploy",
        "from_pretrained",
        "load_swaps",
        "match",
        "merge_curve",
        "merge_pairs",
        "orthogonalize",
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
    if name in _PARTS:
        return _importlib.import_module(f"gatewise.{name}")
    if name in _PART_OF:
        value = getattr(_importlib.import_module(f"gatewise.{_PART_OF[name]}"), name)
        globals()[name] = value  # the next use finds it without this function
        return value
    raise AttributeError(f"module 'gatewise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
