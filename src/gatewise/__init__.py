"""gatewise: the workbench for neural-network nonlinearities."""

import importlib
from typing import TYPE_CHECKING, Any

from gatewise import errors as errors
from gatewise import functional as functional
from gatewise import fused as _fused  # noqa: F401 (enters the fast forms of units)
from gatewise import nn as nn
from gatewise.models import model as model
from gatewise.models import models as models
from gatewise.sites import read_sites as sites
from gatewise.units import create as create
from gatewise.units import find_unit as unit
from gatewise.units import units as units

if TYPE_CHECKING:
    from gatewise import analysis as analysis
    from gatewise import data as data
    from gatewise import studies as studies
    from gatewise import testing as testing
    from gatewise import train as train
    from gatewise.analysis import AlignmentTracker as AlignmentTracker
    from gatewise.analysis import affine_map as affine_map
    from gatewise.analysis import alignment as alignment
    from gatewise.analysis import corner_crops as corner_crops
    from gatewise.analysis import cost as cost
    from gatewise.analysis import diagnose as diagnose
    from gatewise.analysis import film as film
    from gatewise.analysis import gate_flips as gate_flips
    from gatewise.analysis import gate_overlap as gate_overlap
    from gatewise.analysis import gates as gates
    from gatewise.analysis import ideal_spectrum as ideal_spectrum
    from gatewise.analysis import invariance as invariance
    from gatewise.analysis import neutralisation as neutralisation
    from gatewise.analysis import ntk as ntk
    from gatewise.analysis import orthogonality as orthogonality
    from gatewise.analysis import pairing as pairing
    from gatewise.analysis import partition as partition
    from gatewise.analysis import path_kernel as path_kernel
    from gatewise.analysis import paths as paths
    from gatewise.analysis import properties as properties
    from gatewise.analysis import property_table as property_table
    from gatewise.analysis import rademacher as rademacher
    from gatewise.analysis import reconstruct as reconstruct
    from gatewise.analysis import region_prior as region_prior
    from gatewise.analysis import spectrum as spectrum
    from gatewise.analysis import subnetworks as subnetworks
    from gatewise.analysis import term_s_range as term_s_range
    from gatewise.report import write_page as write_page
    from gatewise.studies import Study as Study
    from gatewise.studies import compare as compare
    from gatewise.studies.lightning_recorder import LightningRecorder as LightningRecorder
    from gatewise.studies.transformers_recorder import TransformersRecorder as TransformersRecorder
    from gatewise.surgery import deploy as deploy
    from gatewise.surgery import match as match
    from gatewise.surgery import merge_curve as merge_curve
    from gatewise.surgery import merge_pairs as merge_pairs
    from gatewise.surgery import orthogonalize as orthogonalize
    from gatewise.surgery import plan as plan
    from gatewise.surgery import receipt as receipt
    from gatewise.surgery import swap as swap
    from gatewise.surgery import undo as undo

__version__ = "0.1.0"
__all__ = [
    "AlignmentTracker", "LightningRecorder", "Study", "TransformersRecorder", "affine_map", "alignment", "analysis",
    "compare", "corner_crops", "cost", "create", "data", "deploy", "diagnose", "errors", "film", "functional",
    "gate_flips", "gate_overlap", "gates", "ideal_spectrum", "invariance", "match", "merge_curve", "merge_pairs",
    "model", "models", "neutralisation", "nn", "ntk", "orthogonality", "orthogonalize", "pairing", "partition",
    "path_kernel", "paths", "plan", "properties", "property_table", "rademacher", "receipt", "reconstruct",
    "region_prior", "sites", "spectrum", "studies", "subnetworks", "swap", "term_s_range", "testing", "train",
    "undo", "unit", "units", "write_page",
]  # fmt: skip

# What takes time to import is loaded when first asked for: a part, or a name and the part it is in.
_PARTS = {"analysis", "data", "studies", "testing", "train"}
_HOMES = {
    **dict.fromkeys((
        "AlignmentTracker", "affine_map", "alignment", "corner_crops", "cost", "diagnose", "film", "gate_flips",
        "gate_overlap", "gates", "ideal_spectrum", "invariance", "neutralisation", "ntk", "orthogonality",
        "pairing", "partition", "path_kernel", "paths", "properties", "property_table", "rademacher", "reconstruct",
        "region_prior", "spectrum", "subnetworks", "term_s_range",
    ), "analysis"),
    "write_page": "report",
    **dict.fromkeys((
        "Study", "compare",
    ), "studies"),
    "LightningRecorder": "studies.lightning_recorder",
    "TransformersRecorder": "studies.transformers_recorder",
    **dict.fromkeys((
        "deploy", "match", "merge_curve", "merge_pairs", "orthogonalize", "plan", "receipt", "swap", "undo",
    ), "surgery"),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return importlib.import_module(f"gatewise.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(f"gatewise.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'gatewise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PARTS, *_HOMES])
