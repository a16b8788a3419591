"""The papers' networks, built from layers and units: any unit goes into any of them, or they say why not."""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from gatewise.models._block import unit_places as unit_places
    from gatewise.models._catalogue import Model as Model
    from gatewise.models.deep_gated_conv_network import DeepGatedConvNetwork as DeepGatedConvNetwork
    from gatewise.models.deep_gated_network import DeepGatedNetwork as DeepGatedNetwork

__all__ = ["DeepGatedConvNetwork", "DeepGatedNetwork"]  # classes, which `gatewise.nn` has too

# Loaded when first asked for: `import gatewise` reads this file.
_HOMES = {
    "DeepGatedConvNetwork": "deep_gated_conv_network",
    "DeepGatedNetwork": "deep_gated_network",
    "Model": "_catalogue",
    "unit_places": "_block",
}


def models() -> Mapping[str, "Model"]:
    """Every network of the catalogue by name, read-only."""
    return importlib.import_module("gatewise.models._every").MODELS


def find_model(name: str) -> "Model":
    """The network called ``name``; a wrong name gets an error that names the nearest right one."""
    from gatewise.errors import unknown_name

    if not isinstance(name, str) or name not in models():
        raise unknown_name("model", name, models())
    return models()[name]


def model(name: str, **options: Any) -> "nn.Module":
    """The network called ``name``, built with these options; ``models()[name].options`` lists them."""
    return find_model(name).make(**options)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"gatewise.models.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'gatewise.models' has no attribute {name!r}")
