"""Units and layers as modules.

For example, ``gatewise.nn.CReLU()`` and ``gatewise.nn.PSConv2d(...)``.
"""

import importlib
from typing import TYPE_CHECKING, Any

from gatewise.units import registered_units as _units

# For type checkers. At run time the catalogue lists the units, and layers are loaded on demand,
# because most users of a unit need none.
if TYPE_CHECKING:
    from gatewise.layers import *  # noqa: F403
    from gatewise.units import *  # noqa: F403

_UNIT_MODULES = {unit.module.__name__: unit.module for unit in _units().values()}
globals().update(_UNIT_MODULES)


def _layers() -> dict[str, Any]:
    """Return the public names of layers."""
    package = importlib.import_module("gatewise.layers")
    return {name: getattr(package, name) for name in package.__all__}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    layers = {} if name.startswith("_") else _layers()
    if name in layers:
        return layers[name]
    raise AttributeError(f"module 'gatewise.nn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_UNIT_MODULES, *_layers()])
