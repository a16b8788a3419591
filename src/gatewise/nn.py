"""Every unit as a module, under its class name: ``gatewise.nn.CReLU()``."""

from typing import TYPE_CHECKING

from gatewise.units import units as _units

if TYPE_CHECKING:
    from gatewise.units import *  # noqa: F403 - for type checkers; at run time the catalogue is the list

__all__ = sorted(unit.module.__name__ for unit in _units().values())  # pyright: ignore[reportUnsupportedDunderAll]
globals().update({unit.module.__name__: unit.module for unit in _units().values()})
