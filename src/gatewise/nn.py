"""Units as modules, ``gatewise.nn.CReLU()``; layers, ``gatewise.nn.PSConv2d(...)``.

And the papers' networks.
"""

import importlib
from typing import TYPE_CHECKING, Any

from gatewise.units import registered_units as _units

# for type checkers; at run time the catalogue is the list of units, and layers are loaded on demand
if TYPE_CHECKING:
    from gatewise.layers import *  # noqa: F403
    from gatewise.models import *  # noqa: F403
    from gatewise.units import *  # noqa: F403

globals().update({unit.module.__name__: unit.module for unit in _units().values()})


def _layers() -> dict[str, Any]:
    """The public names of layers and models, loaded when first asked for.

    Most users of a unit need none.
    """
    packages = [importlib.import_module(f"gatewise.{part}") for part in ("layers", "models")]
    return {name: getattr(package, name) for package in packages for name in package.__all__}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    if not name.startswith("_") and name in (found := _layers()):
        return found[name]
    raise AttributeError(f"module 'gatewise.nn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*(unit.module.__name__ for unit in _units().values()), *_layers()])
