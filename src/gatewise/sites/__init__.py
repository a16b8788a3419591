"""Read any model as a graph of activation sites, with what makes and what reads each.

Note [Reading]. A model is run on an example by ``torch.export``, once in eval and once in train mode (some networks
have consumers that exist in training only), and where its control flow depends on values, by ``make_fx`` on real
tensors. Nodes are torch's operators before decomposition. Functional calls, in-place calls and modules that are called
several times are sites like any other: nothing here relies on hooks of activation modules.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from gatewise.sites._example import Example as Example
    from gatewise.sites._reading import SiteGraph as SiteGraph
    from gatewise.sites._site import Site as Site

__all__ = ["Example", "Site", "SiteGraph", "read_sites"]

_HOMES = {"Example": "_example", "Site": "_site", "SiteGraph": "_reading"}


def read_sites(model: "nn.Module", example: "Example") -> "SiteGraph":
    """The activation sites of ``model``, read from one run on ``example`` in eval and one in train mode.

    Neither the model nor torch's random state is changed. ``example`` is a tensor, a tuple of positional arguments or
    a dict of keyword arguments.
    """
    from gatewise.sites._reading import read_model  # here, so that `import gatewise` does not pay for it

    return read_model(model, example)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"gatewise.sites.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'gatewise.sites' has no attribute {name!r}")
