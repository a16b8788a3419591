"""Every unit as a function, under the unit's name: ``gatewise.functional.crelu(x)``."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor

from gatewise.units import registered_units as _units

if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., Tensor]: ...


__all__ = [*sorted(_units())]  # pyright: ignore[reportUnsupportedDunderAll] - the catalogue is the list
globals().update({name: unit.function for name, unit in _units().items()})
